package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/types"
)

var smallNumbers = []string{"0", "1", "2", "3", "-1", "10", "0.5", "1.5", "-2.5", "7", "100"}
var oddNumbers = []string{"1.0", "2.0", "0.1", "0.30000000000000004", "1e3", "1e18", "1e-7", "1e21", "64", "255",
	"256", "65535", "2147483648", "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "18446744073709551616", "123456789012345678901234567890", "0.000001", "123456.789",
	"3.14159265358979", "1700000000000000000", "-0.5", "2.5", "3.5", "1e19", "99999999999999999999.5"}

var plainStrings = []string{"", "a", "b", "abc", "foo", "x", "A", "Abc Def", " a b ", "a,b,c", "a/b", "äöü", "日本", "0", "1", "1.5",
	"true", "null", "\n", "\\", "\"", "a\tb", "foo.bar", "ab ab ab", "\u0000", "e\u0301", "😀", "<b>&"}

// What a builtin reads well, by the beginning of its name; the longest that fits is taken.
var pools = map[string][]string{
	"regex": {"a", "^a.*", "[a-z]+", "(a)(b)?", "\\d+", "a|b", "(?P<x>.)y?", "[", "", "^$", "\\bfoo\\b", "(?i)ABC", ".*?", "a{2,3}",
		"\\p{L}+", "[[:alpha:]]", "abc", "foo.bar", "aab", "日.", "$1-${x}", "x*", "(a*)*b", "ab ab ab"},
	"regex.template": {"a{.*}b", "{", "{[a-z]+}", "urn:{.*}:x", "}", "abc", "{}", "<.*>", "a", "urn:y:x"},
	"glob": {"*", "**", "a*", "*.foo", "{a,b}", "[a-c]", "[!a]", "?", "a.b.c", "foo.bar", "*.bar", "", "\\*", "{a,[b", "a/b", "*:*", "ab",
		"{cat,bat,[fr]at}", "api.*.com", "api.x.com"},
	"net": {"10.0.0.0/8", "10.1.2.3", "192.168.1.0/24", "192.168.1.1", "::1", "2001:db8::/32", "2001:db8::1", "10.0.0.0/33", "", "a",
		"0.0.0.0/0", "10.0.0.1/32", "192.168.1.0/30", "192.168.0.0/23", "1.2.3", "::ffff:1.2.3.4", "::/0", "10.0.0.0/31", "fe80::/10"},
	"net.cidr_expand": {"192.168.1.0/30", "10.0.0.1/32", "10.0.0.0/31", "2001:db8::/126", "10.0.0.0/33", "a", "1.2.3.4"},
	"semver":          {"1.2.3", "1.2.3-alpha.1", "1.2.3+build", "v1.2.3", "1.2", "1.10.0", "0.0.0", "1.2.3-1", "1.2.3-a.b", "01.2.3", "", "1.2.3-alpha"},
	"time": {"2024-02-29T12:34:56Z", "2006-01-02", "2024-02-29", "Mon, 02 Jan 2006 15:04:05 MST", "2024-02-29T12:34:56.789+02:00", "1h30m",
		"-1.5s", "1h", "UTC", "America/New_York", "Europe/Berlin", "RFC3339", "RFC1123", "ANSIC", "15:04", "Local", "", "x",
		"Asia/Kolkata", "1ns", "3us", "1d", "Unix", "UnixDate", "2006-01-02T15:04:05Z07:00"},
	"units":  {"1", "1K", "1Ki", "1.5Mi", "10MB", "1e3", "100m", "1GiB", "0", "", "x", "1 K", "-1k", "\"1k\"", "1.5", "5Ti", "1E", "1Ei", "3kb", "1.", ".5M"},
	"base64": {"YQ==", "YWI=", "YWJj", "", "a", "YQ", "-_8", "_-8=", "+/8=", "aGVsbG8gd29ybGQ=", "äö", "YQ=\n="},
	"hex":    {"61", "6162", "6", "", "zz", "DEADBEEF", "00ff"},
	"json": {"{}", "[1,2]", "{\"a\":1}", "\"a\"", "1", "1.0", "null", "", "{", "[1,]", "{\"a\":1,\"b\":[true]}", " 1 ", "1 2", "1e400", "\"\\u00e4\"",
		"a", "a/b", "/a", "/a/b", "/-", "/0", "~1a", "a~0", "/a/0"},
	"json.patch": {"add", "remove", "replace", "move", "copy", "test", "/a", "/a/b", "/b", "/-", "/0", "", "a"},
	"yaml": {"a: 1", "- 1\n- 2", "a: [1, 2]\nb: {c: d}", "x", "1", "1.0", "0x1F", "0o17", "yes", "null", "~", "", "{", "a: 'b'", "a: |\n  x\n  y", "- - 1",
		"2024-01-01", "&a 1", "a: &x 1\nb: *x", "1e3", ".inf", "010", "on", "\"a\"", "a: 1\na: 2", "!!str 1", "true", "\t", "? a", "<<: {a: 1}"},
	"urlquery": {"a=1&b=2", "a b", "%41", "%", "a+b", "ä", "a=1&a=2", "", "a", "a=%zz", "a;b", "&&", "=1", "a==b", "!*'()", "~-._"},
	"sprintf": {"%s", "%v", "%d", "%5d", "%-5s|", "%05.1f", "%x", "%X", "%o", "%b", "%e", "%g", "%q", "%t", "%c", "%U", "%%", "%", "%!", "%d %s", "%s %s %s",
		"%[2]d %[1]d", "%6.2f", "%+d", "% d", "%#x", "%T", "%s%d", "%.3s", "%10v", "%f", "%.0f", "a", "%*d", "%#v", "%08b", "%.2e", "%i"},
	"format_int": {"2"},
	"to_number":  {"1", "1.5", "1e3", "-1", "+1", "0x1", "", "a", " 1", "1_000", "Inf", "NaN", "1.", ".5", "00", "-0", "1e400", "1E5", "--1"},
	"graphql": {"{ a }", "query { a { b } }", "type Query { a: String }", "type Query { a(x: Int!): [String!]! } ", "{ a(x: 1) }", "", "{",
		"query Q($x: Int) { a(x: $x) }", "schema { query: Q } type Q { a: Int }", "{ ...F } fragment F on Query { a }"},
	"crypto": {"", "a", "abc", "key", "äöü"},
	"io.jwt": {"", "a.b.c", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.XbPfbIHMI6arZ3Y922BhjWgQzWXcXNrz0ogtVhfEd2o", "secret", "e30.e30.",
		"eyJhbGciOiJub25lIn0.eyJhIjoxfQ.", "bnVsbA.e30.a"},
	"strings":   {"", "a", "ab", "abab", "aXbXc", "X", "b", "äöä", "ä", "abcabc", "aa"},
	"string":    {"", "a", "ab", "abab", "aXbXc", "X", "äöä", "ä", " a ", "  "},
	"split":     {"a,b,c", ",", "", "ab", "äö", "aXXb", "X"},
	"replace":   {"a,b,c", ",", "", "ab", "äö", "aXXb", "X"},
	"trim":      {" a ", "xax", "x", "", "ax", "xxaxx", "ä", "äaä", "\ta\n"},
	"substring": {"abcdef", "", "äöü", "日本語"}, "indexof": {"abcabc", "", "b", "ä", "äöä", "c"},
	"strings.render_template": {"{{.a}}", "{{range .l}}{{.}},{{end}}", "{{if .a}}x{{else}}y{{end}}", "{{.x.y}}", "{{", "{{printf \"%v\" .a}}", "a",
		"{{len .l}}", "{{index .l 0}}", "{{.a | printf \"%q\"}}", "{{with .a}}{{.}}{{end}}", "{{eq .a 1}}", "{{/* c */}}x", "{{- .a -}}"},
}

// What patterns and numbers of all sorts are spelled with, right or wrong.
var letters = map[string]string{
	"glob": "ab*?[]{},!-\\./^:", "regex": "ab.*+?()[]{}|^$\\-1,dwsb:", "semver": "0123.-+av", "units": "0123.-KMGi eEmkB",
	"sprintf": "%%%%sdvxXqfegtcUbo 0123.+-#[]*", "to_number": "0123.eE+-", "time.parse_duration": "0123hmsnu.-µ",
	"json.unmarshal": "{}[]\":,0123.e-ntrue\\u ", "json.is_valid": "{}[]\":,0123.e-ntrue\\u ", "net": "012389abf.:/", "urlquery": "%=&+;a0Af",
	"hex": "0123abfFg", "base64": "YWJj=-_+/\n", "strings": "aäbX", "split": "a,b", "trim": " xaä\t", "replace": "aXb", "format": "0123.",
	"substring": "aäb日", "indexof": "abä", "uri": "http://a:@[]%20?#=&.b", "numbers": "01", "regex.globs_match": "ab.*+?[]-",
	"regex.template_match": "ab{}.*[]",
}

func longest[T any](of map[string]T, builtin string) (T, bool) {
	best := ""
	for name := range of {
		if strings.HasPrefix(builtin, name) && len(name) > len(best) {
			best = name
		}
	}
	v, ok := of[best]
	return v, ok
}

func (g *values) spelled(alphabet string) string {
	runes := []rune(alphabet)
	var b strings.Builder
	for i := g.r.Intn(9); i >= 0; i-- {
		b.WriteRune(runes[g.r.Intn(len(runes))])
	}
	return b.String()
}

func poolOf(builtin string) []string {
	if pool, ok := longest(pools, builtin); ok {
		return pool
	}
	return plainStrings
}

// few: builtins whose numbers have to stay small because they make something of that size.
var few = map[string]bool{"bits.lsh": true, "bits.rsh": true, "numbers.range": true, "numbers.range_step": true, "strings.repeat": true, "net.cidr_expand": true, "time.add_date": true}

type values struct {
	r *rand.Rand
}

func (g *values) one(of []string) string  { return of[g.r.Intn(len(of))] }
func (g *values) chance(percent int) bool { return g.r.Intn(100) < percent }

func (g *values) number(builtin string) *node {
	if few[builtin] || !g.chance(15) {
		return leaf(g.one(smallNumbers))
	}
	return leaf(g.one(oddNumbers))
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func (g *values) text(builtin string) *node {
	if builtin == "" || (g.chance(20) && !few[builtin]) {
		return leaf(quote(g.one(plainStrings)))
	}
	if alphabet, ok := longest(letters, builtin); ok && g.chance(30) {
		return leaf(quote(g.spelled(alphabet)))
	}
	return leaf(quote(g.one(poolOf(builtin))))
}

var keys = []string{"a", "b", "c", "k", "op", "path", "value", "x"}

// any is a value of JSON; sets too where it is to be Rego.
func (g *values) any(builtin string, depth int, sets bool) *node {
	switch k := g.r.Intn(12); {
	case k < 3:
		return g.number(builtin)
	case k < 6:
		return g.text(builtin)
	case k == 6:
		return leaf(g.one([]string{"true", "false"}))
	case k == 7:
		return leaf(g.one([]string{"null", "[]", "{}"}))
	case depth <= 0:
		return g.number(builtin)
	case k < 10:
		return g.array(builtin, depth, sets)
	case k == 10 && sets:
		return g.set(builtin, depth)
	}
	n := list(true, "{", ", ", "}", 0)
	used := map[string]bool{}
	for i := g.r.Intn(4); i > 0; i-- {
		if key := g.one(keys); !used[key] {
			used[key] = true
			n.kids = append(n.kids, form(false, strconv.Quote(key)+": @", g.any(builtin, depth-1, sets)))
		}
	}
	return n
}

func (g *values) array(builtin string, depth int, sets bool) *node {
	n := list(true, "[", ", ", "]", 0)
	for i := g.r.Intn(4); i > 0; i-- {
		n.kids = append(n.kids, g.any(builtin, depth-1, sets))
	}
	return n
}

func (g *values) set(builtin string, depth int) *node {
	n := list(true, "{", ", ", "}", 1)
	for i := 1 + g.r.Intn(3); i > 0; i-- {
		n.kids = append(n.kids, g.any(builtin, depth-1, true))
	}
	return n
}

// typed is a value of the type a builtin's declaration asks for.
func (g *values) typed(t types.Type, builtin string, depth int) *node {
	if named, ok := t.(*types.NamedType); ok {
		t = named.Type
	}
	switch t := t.(type) {
	case types.Boolean:
		return leaf(g.one([]string{"true", "false"}))
	case types.Number:
		return g.number(builtin)
	case types.String:
		return g.text(builtin)
	case types.Null:
		return leaf("null")
	case types.Any:
		if len(t) > 0 {
			return g.typed(t[g.r.Intn(len(t))], builtin, depth)
		}
	case *types.Set:
		n := list(true, "{", ", ", "}", 1)
		for i := 1 + g.r.Intn(3); i > 0; i-- {
			n.kids = append(n.kids, g.typed(t.Of(), builtin, depth-1))
		}
		return n
	case *types.Array:
		n := list(true, "[", ", ", "]", t.Len())
		for i := range t.Len() {
			n.kids = append(n.kids, g.typed(t.Select(i), builtin, depth-1))
		}
		if t.Dynamic() != nil {
			for i := g.r.Intn(4); i > 0; i-- {
				n.kids = append(n.kids, g.typed(t.Dynamic(), builtin, depth-1))
			}
		}
		return n
	case *types.Object:
		return g.object(t, builtin, depth)
	}
	return g.any(builtin, depth, true)
}

func (g *values) object(t *types.Object, builtin string, depth int) *node {
	n := list(true, "{", ", ", "}", len(t.StaticProperties()))
	used := map[string]bool{}
	for _, p := range t.StaticProperties() {
		key := fmt.Sprint(p.Key)
		used[key] = true
		n.kids = append(n.kids, form(false, strconv.Quote(key)+": @", g.typed(p.Value, builtin, depth-1)))
	}
	d := t.DynamicProperties()
	for i := g.r.Intn(4); i > 0 && d != nil; i-- {
		key := g.typed(d.Key, builtin, 0).String()
		if strings.HasPrefix(key, `"`) {
			key = strconv.Quote(g.one(keys))
		}
		if !used[key] && !used[strings.Trim(key, `"`)] {
			used[key] = true
			n.kids = append(n.kids, form(false, strings.ReplaceAll(key, "@", "")+": @", g.typed(d.Value, builtin, depth-1)))
		}
	}
	return n
}
