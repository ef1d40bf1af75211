package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"strings"

	"github.com/open-policy-agent/opa/v1/rego"
	"sigs.k8s.io/yaml"
)

// finding is a difference in its smallest form.
type finding struct {
	q       *question
	opa, rf answer
	c       *comparison
}

// everything that was asked, with what it was asked of.
func (f *finding) all() string { return f.q.text() + string(f.q.Input) + string(f.q.Data) }

func (f *finding) kinds(opa, rf string) bool { return kind(f.opa) == opa && kind(f.rf) == rf }

func (f *finding) values() bool { return f.kinds("value", "value") }

func (f *finding) calls(names ...string) bool {
	for _, name := range names {
		if strings.Contains(f.q.text(), name+"(") {
			return true
		}
	}
	return false
}

func (f *finding) usesData() bool {
	return !refusal(kind(f.opa)) && strings.Contains(f.q.text(), "data.d")
}

// sameAfter: both are values, and the same one once change is made to their texts.
func (f *finding) sameAfter(change func(string) string) bool {
	return f.values() && change(fmt.Sprint(f.opa.Result)) == change(fmt.Sprint(f.rf.Result))
}

// again asks OPA the same with something else.
func (f *finding) again(change func(*question), opts ...rego.EvalOption) answer {
	q := *f.q
	change(&q)
	return ask(&q, f.c.limit, opts...)
}

// agreeOn: the question changed so, both answer the same.
func (f *finding) agreeOn(change func(string) string) bool {
	q := *f.q
	q.Query = change(q.Query)
	q.Input = []byte(change(string(q.Input)))
	q.Data = []byte(change(string(q.Data)))
	q.Modules = map[string]string{}
	for name, text := range f.q.Modules {
		q.Modules[name] = change(text)
	}
	rf, err := f.c.rf.ask(&q, 4*f.c.limit)
	return err == nil && compare(ask(&q, f.c.limit), rf) == ""
}

// goneWithout: with something else in the place of what matches, both agree. So it is the cause.
func (f *finding) goneWithout(what *regexp.Regexp, instead string) bool {
	return what.MatchString(f.all()) && f.agreeOn(func(s string) string { return what.ReplaceAllString(s, instead) })
}

// rule is a difference that stays as it is; README.md says why. A rule holds only for what it is about: it looks at both
// answers, and where it can, it asks OPA again.
type rule struct {
	name  string
	holds func(f *finding) bool
}

var rules = []rule{
	{"number-spelling", func(f *finding) bool { return f.sameAfter(plainNumbers) }},
	{"number-size", func(f *finding) bool {
		return kind(f.opa) == "value" && kind(f.rf) != "value" && longNumber.MatchString(fmt.Sprint(f.opa.Result))
	}},
	{"sum-digits", func(f *finding) bool {
		return f.values() && f.calls("product", "sum") && nearly(fmt.Sprint(f.opa.Result), fmt.Sprint(f.rf.Result))
	}},
	{"to-number-spelling", func(f *finding) bool { return f.calls("to_number") && f.sameAfter(oneSpelling) }},
	{"sprintf-sharp-x", func(f *finding) bool { return f.calls("sprintf") && f.goneWithout(sharpX, "%v") }},
	{"yaml-style", yamlStyle},
	{"yaml-repeated-key", func(f *finding) bool {
		return f.calls("yaml.unmarshal", "yaml.is_valid") && f.goneWithout(repeatedKey, "a: 2")
	}},
	{"template-printf", func(f *finding) bool {
		return f.values() && f.calls("strings.render_template") && f.goneWithout(templatePrintf, "")
	}},
	{"template-sets", templateSets},
	{"cidr-families", func(f *finding) bool { return f.calls("net.cidr_merge") && f.goneWithout(address6, `"10.0.0.0/8"`) }},
	{"glob-nul", func(f *finding) bool { return f.calls("glob.match") && f.goneWithout(nul, "x") }},
	{"index-as-text", func(f *finding) bool { return f.usesData() && f.goneWithout(digitText, `"x$1"`) }},
	{"not-true-alone", func(f *finding) bool { return !refusal(kind(f.opa)) && f.goneWithout(notTrue, "$1 1 == 2 $2") }},
	{"every-leaks", everyLeaks},
	{"unsafe-beside-closure", unsafeBesideClosure},
	{"some-pattern-rule", somePatternRule},
	{"conflict-not-asked", conflictNotAsked},
}

// knownAs is the name of the rule that a finding falls under, or "".
func knownAs(f *finding) string {
	for _, r := range rules {
		if r.holds(f) {
			return r.name
		}
	}
	return ""
}

var (
	zeros          = regexp.MustCompile(`(\d)\.0+(\D|$)`)
	number         = regexp.MustCompile(`-?\d+(\.\d+)?([eE][-+]?\d+)?`)
	odd            = regexp.MustCompile(`[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?`)
	longNumber     = regexp.MustCompile(`\d{900}`)
	sharpX         = regexp.MustCompile(`%[-+ 0]*#[-+ 0]*[0-9.]*[xX]`)
	quoted         = regexp.MustCompile(`"(\\.|[^"\\])*"`)
	repeatedKey    = regexp.MustCompile(`a: 1\\u000aa: 2`)
	templatePrintf = regexp.MustCompile(` \| printf [^}]*|printf [^}]* `)
	address6       = regexp.MustCompile(`"[0-9a-f]*:[0-9a-f:.]*(/\d+)?"`)
	nul            = regexp.MustCompile(`\\u0000`)
	notTrue        = regexp.MustCompile(`([{|])\s*not true\s*([\]}])`)
	digitText      = regexp.MustCompile(`"(\d+)"`)
	yamlMarshal    = regexp.MustCompile(`yaml\.marshal\(`)
	everyNames     = regexp.MustCompile(`\bevery (\w+)(?:, (\w+))? in`)
	unsafeVar      = regexp.MustCompile(`^var ([rs]\d+) is unsafe`)
	someIn         = regexp.MustCompile(`\bsome [^\n]*\bin\b[^\n]*(\n[^\n]*)?\bin\b`)
	rulePath       = regexp.MustCompile(`(?m)^(default )?([rs]\d+)\b`)
)

func plainNumbers(s string) string { return zeros.ReplaceAllString(s, "$1$2") }

// nearly: the same text but for numbers that differ by rounding.
func nearly(a, b string) bool {
	x, y := number.FindAllString(a, -1), number.FindAllString(b, -1)
	if len(x) != len(y) || number.ReplaceAllString(a, "0") != number.ReplaceAllString(b, "0") {
		return false
	}
	for i := range x {
		p, _, err1 := big.ParseFloat(x[i], 10, 200, big.ToNearestEven)
		q, _, err2 := big.ParseFloat(y[i], 10, 200, big.ToNearestEven)
		if err1 != nil || err2 != nil {
			return false
		}
		off := new(big.Float).Sub(p, q)
		most := new(big.Float).Mul(q, big.NewFloat(1e-14))
		if off.Abs(off).Cmp(most.Abs(most)) > 0 {
			return false
		}
	}
	return true
}

func oneSpelling(s string) string {
	return odd.ReplaceAllStringFunc(s, func(n string) string {
		f, _, err := big.ParseFloat(strings.ReplaceAll(n, "_", ""), 10, 200, big.ToNearestEven)
		if err != nil {
			return n
		}
		return f.Text('e', 40)
	})
}

// sameYAML: but for strings the same text, and strings that differ read the same as YAML.
func sameYAML(a, b string) bool {
	x, y := quoted.FindAllString(a, -1), quoted.FindAllString(b, -1)
	if len(x) != len(y) || quoted.ReplaceAllString(a, "_") != quoted.ReplaceAllString(b, "_") {
		return false
	}
	for i := range x {
		var s, t string
		var v, w any
		if x[i] == y[i] {
			continue
		}
		if json.Unmarshal([]byte(x[i]), &s) != nil || json.Unmarshal([]byte(y[i]), &t) != nil ||
			yaml.Unmarshal([]byte(s), &v) != nil || yaml.Unmarshal([]byte(t), &w) != nil || !reflect.DeepEqual(v, w) {
			return false
		}
	}
	return true
}

// yamlStyle: what yaml.marshal writes may be quoted in another way. Where it is a part of another string, only the style differs;
// where it is compared, a value may be there or not; and there is no difference with JSON in its place.
func yamlStyle(f *finding) bool {
	if refusal(kind(f.opa)) || refusal(kind(f.rf)) || !f.calls("yaml.marshal") {
		return false
	}
	if f.values() && sameYAML(fmt.Sprint(f.opa.Result), fmt.Sprint(f.rf.Result)) {
		return true
	}
	return (f.sameAfter(withoutStyle) || f.kinds("value", "undefined") || f.kinds("undefined", "value")) &&
		f.goneWithout(yamlMarshal, "json.marshal(")
}

func withoutStyle(s string) string {
	return strings.NewReplacer(`\n`, "", `\`, "", `"`, "", `'`, "", " ", "").Replace(s)
}

// bindings of one answer, by name: {"x": 1, "y": {2, 3}}.
func bindings(answer string) map[string]string {
	ret := map[string]string{}
	depth, from, inString := 0, 1, false
	for i := 1; i < len(answer); i++ {
		c := answer[i]
		switch {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case depth == 0 && (c == ',' || c == '}'):
			if name, value, ok := strings.Cut(strings.TrimSpace(answer[from:i]), ": "); ok {
				ret[strings.Trim(name, `"`)] = value
			}
			from = i + 1
		}
	}
	return ret
}

// OPA gives a query's every inside a comprehension away: its variables are among the answers.
func everyLeaks(f *finding) bool {
	a, ok1 := f.opa.Result.([]any)
	b, ok2 := f.rf.Result.([]any)
	names := everyNames.FindAllStringSubmatch(f.q.Query, -1)
	if !ok1 || !ok2 || len(a) != len(b) || len(names) == 0 {
		return false
	}
	for i := range a {
		more, same := bindings(fmt.Sprint(a[i])), bindings(fmt.Sprint(b[i]))
		for _, n := range names {
			delete(more, n[1])
			delete(more, n[2])
		}
		if !maps.Equal(more, same) {
			return false
		}
	}
	return true
}

// withoutClosures has [1] in the place of each outermost comprehension.
func withoutClosures(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if end := closureEnd(s, i); end > 0 {
			out.WriteString("[1]")
			i = end
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// closureEnd is where the comprehension ends that begins at i; 0: none begins there.
func closureEnd(s string, i int) int {
	depth, bar := 0, false
	if s[i] != '[' && s[i] != '{' {
		return 0
	}
	for k := i; k < len(s); k++ {
		switch s[k] {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			depth--
		case '|':
			bar = bar || depth == 1
		}
		if depth == 0 {
			if bar {
				return k
			}
			return 0
		}
	}
	return 0
}

// OPA lets a variable pass that nothing binds where it stands beside a comprehension, and fails when it gets there: with a
// constant in the comprehension's place it refuses it, too.
func unsafeBesideClosure(f *finding) bool {
	return kind(f.rf) == "rego_unsafe_var_error" && !refusal(kind(f.opa)) && withoutClosures(f.q.text()) != f.q.text() &&
		f.agreeOn(withoutClosures)
}

// OPA does not know rules by their names inside `some (x in rule) in xs`; by their paths it does.
func somePatternRule(f *finding) bool {
	if kind(f.opa) != "rego_unsafe_var_error" || refusal(kind(f.rf)) || !someIn.MatchString(f.q.text()) {
		return false
	}
	m := unsafeVar.FindStringSubmatch(f.opa.Error.Message)
	if m == nil {
		return false
	}
	return f.goneWithout(regexp.MustCompile(`([^\w.\n])`+m[1]+`\b`), "${1}data.t."+m[1])
}

// OPA hands a template its values as text that it reads as JSON, which a set is not.
func templateSets(f *finding) bool {
	if refusal(kind(f.rf)) || !f.calls("strings.render_template") {
		return false
	}
	a := f.again(func(q *question) { q.Strict = true })
	return a.Error != nil && strings.Contains(a.Error.Message, "render_template: invalid character")
}

// A conflict that OPA does not meet, because its index leaves the rule out that would, because it stops at a first value, or
// because it computes something else first that is undefined: without index and early exit, or asked for each rule by itself, OPA
// tells the same.
func conflictNotAsked(f *finding) bool {
	if kind(f.rf) != "eval_conflict_error" || (kind(f.opa) != "value" && kind(f.opa) != "undefined") {
		return false
	}
	queries := []string{f.q.Query}
	for name, text := range f.q.Modules {
		for _, m := range rulePath.FindAllStringSubmatch(text, -1) {
			queries = append(queries, "data."+strings.TrimSuffix(name, ".rego")+"."+m[2])
		}
	}
	for _, query := range queries {
		a := f.again(func(q *question) { q.Query = query }, rego.EvalRuleIndexing(false), rego.EvalEarlyExit(false))
		if kind(a) == "eval_conflict_error" {
			return true
		}
	}
	return false
}
