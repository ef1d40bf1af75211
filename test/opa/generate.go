package main

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// Left out: not the same twice, needs more than its operands, or says something about the place it stands at.
var notCalled = map[string]bool{"rand.intn": true, "uuid.rfc4122": true, "trace": true, "print": true, "io.jwt.encode_sign": true,
	"io.jwt.encode_sign_raw": true, "rego.metadata.chain": true, "rego.metadata.rule": true, "providers.aws.sign_req": true,
	"walk": true, "eq": true, "assign": true}

func callable(v0 bool) []*ast.Builtin {
	var ret []*ast.Builtin
	for _, b := range offline.Builtins {
		if notCalled[b.Name] || strings.HasPrefix(b.Name, "internal.") || (b.Deprecated && !v0) {
			continue
		}
		ret = append(ret, b)
	}
	return ret
}

var callableV0, callableV1 = callable(true), callable(false)

// policies are made of rules that refer to rules made before them, so that none is recursive.
type generator struct {
	values
	v0       bool
	only     string // the one builtin to call; empty: all
	vars     []string
	made     int  // variables so far
	closed   bool // nothing that stands for several values: no [_]
	rules    []string
	partial  map[string]bool // rules that hold several values
	funcs    map[string]int
	builtins []*ast.Builtin
}

func newGenerator(r *rand.Rand, only string) *generator {
	g := &generator{values: values{r}, only: only, partial: map[string]bool{}, funcs: map[string]int{}}
	g.v0 = g.chance(15)
	g.builtins = callableV1
	if g.v0 {
		g.builtins = callableV0
	}
	return g
}

func (g *generator) newVar() string {
	g.made++
	return fmt.Sprintf("v%d", g.made)
}

// inner runs f with its variables known to it only.
func (g *generator) inner(f func()) {
	n := len(g.vars)
	f()
	g.vars = g.vars[:n]
}

var inputKeys = []string{"a", "b", "c", "l", "o", "u", "s", "n"}

func (g *generator) input() *node {
	n := list(true, "{", ", ", "}", 0)
	for _, key := range inputKeys {
		v := g.any("", 3, false)
		switch {
		case g.chance(10):
			continue
		case key == "l":
			v = g.array("", 3, false)
		case key == "s":
			v = g.text("")
		case key == "n":
			v = g.number("")
		}
		n.kids = append(n.kids, form(false, fmt.Sprintf("%q: @", key), v))
	}
	return n
}

// --- terms ---

func (g *generator) ref() *node {
	base := "input"
	if g.chance(25) {
		base = "data.d"
	}
	text := base + "." + g.one(inputKeys)
	k := g.r.Intn(8)
	if g.closed && (k == 0 || k == 3) {
		k = 7
	}
	switch k {
	case 0:
		return leaf(text + "[_]")
	case 1:
		return leaf(text + "." + g.one(keys))
	case 2:
		return form(true, text+"[@]", g.simple())
	case 3:
		return leaf(text + "[_]." + g.one(keys))
	case 4:
		return form(true, base+"[@]", leaf(quote(g.one(inputKeys))))
	}
	return leaf(text)
}

func (g *generator) simple() *node {
	if len(g.vars) > 0 && g.chance(60) {
		return leaf(g.one(g.vars))
	}
	if g.chance(50) {
		return g.number("")
	}
	return leaf(quote(g.one(keys)))
}

// operand is a term whose type nobody knows before it is evaluated.
func (g *generator) operand(depth int) *node {
	switch {
	case len(g.vars) > 0 && g.chance(40):
		return leaf(g.one(g.vars))
	case g.chance(15) && depth > 0:
		return g.term(depth - 1)
	case g.chance(15):
		return g.rule()
	}
	return g.ref()
}

// collection is a term that may well have members.
func (g *generator) collection(depth int) *node {
	switch {
	case g.chance(15):
		return g.array("", 2, true)
	case g.chance(15) && depth > 0:
		return g.comprehension(depth)
	case g.chance(30):
		return g.rule()
	}
	return leaf(g.one([]string{"input", "data.d"}) + "." + g.one([]string{"l", "l", "o", "u", "a", "b", "c"}))
}

func (g *generator) rule() *node {
	if len(g.rules) == 0 {
		return g.ref()
	}
	name := g.one(g.rules)
	if g.chance(20) {
		name = full(name)
	}
	switch {
	case g.chance(15) && !g.closed:
		return leaf(name + "[_]")
	case g.chance(20):
		return form(true, name+"[@]", g.simple())
	}
	return leaf(name)
}

// full is a rule's path: rules of the other module are known by its imported name.
func full(name string) string {
	if strings.HasPrefix(name, "t.") {
		return "data." + name
	}
	return "data.t." + name
}

func (g *generator) call(depth int) *node {
	if len(g.funcs) > 0 && g.chance(30) {
		names := make([]string, 0, len(g.funcs))
		for name := range g.funcs {
			names = append(names, name)
		}
		slices.Sort(names)
		name := g.one(names)
		n := list(true, name+"(", ", ", ")", g.funcs[name])
		for range g.funcs[name] {
			n.kids = append(n.kids, g.term(depth-1))
		}
		return n
	}
	return g.builtin(depth)
}

func (g *generator) pick() *ast.Builtin {
	for range 1000 {
		b := g.builtins[g.r.Intn(len(g.builtins))]
		if (g.only == "" || strings.HasPrefix(b.Name, g.only)) && b.Decl.Result() != nil {
			return b
		}
	}
	return g.builtins[0]
}

func (g *generator) builtin(depth int) *node {
	b := g.pick()
	args := b.Decl.FuncArgs().Args
	n := list(true, b.Name+"(", ", ", ")", len(args))
	for _, t := range args {
		n.kids = append(n.kids, g.argument(t, b.Name, depth))
	}
	return n
}

// argument mostly has the type that is asked for, or one that is only known when it is evaluated.
func (g *generator) argument(t types.Type, builtin string, depth int) *node {
	switch {
	case few[builtin]:
		return g.typed(t, builtin, 1)
	case g.chance(35):
		return g.operand(depth)
	}
	return g.typed(t, builtin, 2)
}

func (g *generator) comprehension(depth int) *node {
	var n *node
	g.inner(func() {
		body := g.body(depth-1, 1+g.r.Intn(2))
		switch g.r.Intn(3) {
		case 0:
			n = form(true, "[@ | @]", g.term(depth-1), body)
		case 1:
			n = form(true, "{@ | @}", g.term(depth-1), body)
		default:
			n = form(true, "{@: @ | @}", g.simple(), g.term(depth-1), body)
		}
	})
	return n
}

// members is a set, if all is well.
func (g *generator) members(depth int) *node {
	if g.chance(30) {
		return g.operand(depth)
	}
	return form(true, "{m | some m in @}", g.collection(depth))
}

func (g *generator) term(depth int) *node {
	k := g.r.Intn(20)
	if depth <= 0 {
		k = g.r.Intn(9)
	}
	switch {
	case k < 2:
		return g.any("", 1, true)
	case k < 5:
		return g.simple()
	case k < 7:
		return g.ref()
	case k < 9:
		return g.rule()
	case k < 13:
		return g.call(depth)
	case k == 13:
		return form(true, "(@ "+g.one([]string{"+", "-", "*", "/", "%"})+" @)", g.operand(depth-1), g.operand(depth-1))
	case k == 14:
		return form(true, "(@ "+g.one([]string{"|", "&", "-"})+" @)", g.members(depth-1), g.members(depth-1))
	case k == 15:
		return form(true, "(@ "+g.one([]string{"==", "<", ">=", "!=", "in"})+" @)", g.term(depth-1), g.collection(depth-1))
	case k == 16:
		return list(true, "[", ", ", "]", 0, g.term(depth-1), g.term(depth-1))
	case k == 17:
		return form(true, `{@: @, "z": @}`, leaf(quote(g.one(keys))), g.term(depth-1), g.term(depth-1))
	case k == 18 && !g.v0:
		return form(true, `$"p{@}q{@}"`, g.simple(), leaf(g.plainRef()))
	}
	return g.comprehension(depth)
}

// pattern is what something is unified with; new variables in it are bound by that.
func (g *generator) pattern(depth int, fresh *[]string) *node {
	switch k := g.r.Intn(9); {
	case k < 4 || depth <= 0:
		v := g.newVar()
		*fresh = append(*fresh, v)
		return leaf(v)
	case k == 4:
		return g.any("", 1, false)
	case k == 5:
		return leaf("_")
	case k < 8:
		n := list(true, "[", ", ", "]", 0)
		for i := g.r.Intn(3); i >= 0; i-- {
			n.kids = append(n.kids, g.pattern(depth-1, fresh))
		}
		return n
	}
	return form(true, fmt.Sprintf("{%q: @}", g.one(keys)), g.pattern(depth-1, fresh))
}

// --- expressions ---

func (g *generator) bind(format string, names int, kids ...*node) *node {
	var fresh []any
	for range names {
		fresh = append(fresh, g.newVar())
	}
	n := form(false, fmt.Sprintf(format, fresh...), kids...)
	for _, v := range fresh {
		g.vars = append(g.vars, v.(string))
	}
	return n
}

func (g *generator) expression(depth int) *node {
	switch k := g.r.Intn(26); {
	case k < 5:
		return g.bind("%s := @", 1, g.term(depth))
	case k < 8:
		return g.bind("some %s in @", 1, g.collection(depth-1))
	case k < 10:
		return g.bind("some %s, %s in @", 2, g.collection(depth-1))
	case k < 13:
		var fresh []string
		value := g.operand(depth)
		p := g.pattern(2, &fresh)
		g.vars = append(g.vars, fresh...)
		if g.chance(50) {
			return form(false, "@ = @", p, value)
		}
		return form(false, "@ = @", value, p)
	case k == 13:
		return g.bind("walk(@, [%s, %s])", 2, g.term(depth-1))
	case k == 14:
		return g.bind("%s = "+g.plainRef()+"[%s]", 2)
	case k < 18:
		return form(false, "@ "+g.one([]string{"==", "!=", "<", "<=", ">", ">="})+" @", g.term(depth-1), g.term(depth-1))
	case k == 18:
		return form(false, "@ in @", g.term(depth-1), g.collection(depth-1))
	case k == 19:
		var n *node
		was := g.closed
		g.closed = true
		g.inner(func() { n = form(false, "not @", g.test(depth-1)) })
		g.closed = was
		return n
	case k == 20:
		var n *node
		g.inner(func() {
			over := g.collection(depth - 1)
			key, value := g.newVar(), g.newVar()
			if g.chance(60) { // a variable that is declared has to be used
				g.vars = append(g.vars, value)
				n = form(false, "every "+value+" in @ { "+value+" != @; @ }", over, g.simple(), g.body(depth-1, 1))
				return
			}
			g.vars = append(g.vars, key, value)
			n = form(false, "every "+key+", "+value+" in @ { "+key+" != "+value+"; @ }", over, g.body(depth-1, 1))
		})
		return n
	case k < 23:
		return g.with(depth)
	}
	return g.term(depth)
}

func (g *generator) plainRef() string { return "input." + g.one(inputKeys) }

// test is an expression that binds nothing.
func (g *generator) test(depth int) *node {
	if g.chance(50) {
		return form(false, "@ "+g.one([]string{"==", "!=", "<", ">="})+" @", g.term(depth), g.term(depth))
	}
	return g.term(depth)
}

func (g *generator) with(depth int) *node {
	where := g.one([]string{"input", "input.a", "input.o.k", "data.d", "data.d.a", "data.d.o.k"})
	e := g.bind("%s := @", 1, g.term(depth-1))
	if g.chance(30) {
		e = g.term(depth - 1)
	}
	n := form(false, "@ with "+where+" as @", e, g.any("", 2, false))
	if g.chance(25) && len(g.rules) > 0 {
		where = full(g.one(g.rules))
		n = form(false, "@ with "+where+" as @", e, g.any("", 2, true))
	}
	if g.chance(20) {
		b := g.one([]string{"count", "upper", "json.marshal", "to_number"})
		n = form(false, "@ with "+b+" as @", n, g.any("", 1, true))
	}
	return n
}

func (g *generator) body(depth, n int) *node {
	l := list(false, "", "; ", "", 1)
	for range n {
		l.kids = append(l.kids, g.expression(depth))
	}
	return l
}

// --- rules ---

// lines is a body over lines, in braces.
func (g *generator) lines(depth int) *node {
	b := g.body(depth, 1+g.r.Intn(3))
	b.parts = []string{"{\n\t", "\n}"}
	b.sep = "\n\t"
	return b
}

func (g *generator) iff() string {
	if g.v0 {
		return " "
	}
	return " if "
}

func (g *generator) definition(head func() *node, elses bool) *node {
	var n *node
	g.inner(func() {
		body := g.lines(2)
		h := head() // made after the body: it may use what the body binds
		n = list(false, "", " ", "", 1, form(false, "@"+g.iff()+"@", h, body))
	})
	for elses && g.chance(30) {
		g.inner(func() {
			body := g.lines(2)
			n.kids = append(n.kids, form(false, "else := @"+g.iff()+"@", g.term(1), body))
		})
	}
	return n
}

func (g *generator) several(f func() *node) []*node {
	ret := []*node{f()}
	for g.chance(35) && len(ret) < 3 {
		ret = append(ret, f())
	}
	return ret
}

func (g *generator) oneRule(name string) []*node {
	switch k := g.r.Intn(12); {
	case k < 4:
		ret := g.several(func() *node {
			return g.definition(func() *node {
				if g.chance(30) {
					return leaf(name)
				}
				return form(false, name+" := @", g.term(1))
			}, true)
		})
		if g.chance(25) {
			ret = append(ret, form(false, "default "+name+" := @", g.any("", 1, true)))
		}
		return ret
	case k < 7:
		return g.several(func() *node {
			return g.definition(func() *node {
				if g.v0 {
					return form(false, name+"[@]", g.term(1))
				}
				return form(false, name+" contains @", g.term(1))
			}, false)
		})
	case k < 9:
		return g.several(func() *node {
			return g.definition(func() *node { return form(false, name+"[@] := @", g.simple(), g.term(1)) }, false)
		})
	case k == 9 && !g.v0:
		return g.several(func() *node {
			return g.definition(func() *node {
				switch g.r.Intn(3) {
				case 0:
					return form(false, name+".p[@].q := @", g.simple(), g.term(1))
				case 1:
					return form(false, name+"[@][@] := @", g.simple(), g.simple(), g.term(1))
				}
				return form(false, name+"[@] contains @", g.simple(), g.term(1))
			}, false)
		})
	}
	return []*node{form(false, name+" := @", g.any("", 2, true))}
}

func (g *generator) function(name string) []*node {
	arity := 1 + g.r.Intn(2)
	ret := g.several(func() *node {
		var n *node
		g.inner(func() {
			args := list(false, name+"(", ", ", ")", arity)
			for range arity {
				var fresh []string
				args.kids = append(args.kids, g.pattern(g.r.Intn(2), &fresh))
				g.vars = append(g.vars, fresh...)
			}
			n = g.definition(func() *node {
				if g.chance(20) {
					return args
				}
				return form(false, "@ := @", args, g.term(1))
			}, true)
		})
		return n
	})
	g.funcs[name] = arity
	return ret
}

// generated is a policy with its input and query, as trees that can shrink.
type generated struct {
	v0, strict         bool
	rules, input, data *node
	second             *node // rules of another module, which imports the first
	query              *node
}

func (p *generated) question() *question {
	q := &question{V0: p.v0, Strict: p.strict, Term: true, NowNS: 1700000000123456789, Steps: 3000000,
		Input: []byte(p.input.String()), Data: []byte(`{"d": ` + p.data.String() + `}`), Query: p.query.String()}
	if len(p.rules.kids) > 0 {
		head := "package t\n"
		if p.v0 {
			head += "import future.keywords.in\nimport future.keywords.every\n"
		}
		q.Modules = map[string]string{"t.rego": head + p.rules.String() + "\n"}
		if p.second != nil && len(p.second.kids) > 0 {
			head = strings.Replace(head, "package t\n", "package u\nimport data.t\n", 1)
			q.Modules["u.rego"] = head + p.second.String() + "\n"
		}
	}
	return q
}

// call makes a query of one builtin, its operands mostly from the input, so that types are seen when it runs.
func (g *generator) callOnly() *generated {
	b := g.pick()
	in := list(true, "{", ", ", "}", 0)
	args := list(true, b.Name+"(", ", ", ")", len(b.Decl.FuncArgs().Args))
	for i, t := range b.Decl.FuncArgs().Args {
		v := g.typed(t, b.Name, 3)
		if g.chance(12) {
			v = g.any(b.Name, 3, true)
		}
		if text := v.String(); g.chance(60) && isJSON(text) {
			key := fmt.Sprintf("a%d", i)
			in.kids = append(in.kids, form(false, fmt.Sprintf("%q: @", key), v))
			v = leaf("input." + key)
		}
		args.kids = append(args.kids, v)
	}
	return &generated{v0: g.v0, strict: g.chance(50), rules: list(false, "", "\n\n", "", 0), input: in,
		data: leaf("{}"), query: form(false, "x = @", args)}
}

// another adds a second module that uses the rules of the first by its import, and asks for it.
func (g *generator) another(p *generated) {
	for i, name := range g.rules {
		g.rules[i] = "t." + name
	}
	funcs := map[string]int{}
	for name, arity := range g.funcs {
		funcs["t."+name] = arity
	}
	g.funcs = funcs
	p.second = list(false, "", "\n\n", "", 0)
	p.second.kids = append(p.second.kids, g.oneRule("s0")...)
	p.query = leaf(g.one([]string{"data.u.s0", "data.u", "data"}))
}

func (g *generator) policy() *generated {
	p := &generated{v0: g.v0, rules: list(false, "", "\n\n", "", 0), input: g.input(), data: g.input()}
	for i := range 1 + g.r.Intn(4) {
		name := fmt.Sprintf("r%d", i)
		if g.chance(25) {
			name = fmt.Sprintf("f%d", i)
			p.rules.kids = append(p.rules.kids, g.function(name)...)
			continue
		}
		p.rules.kids = append(p.rules.kids, g.oneRule(name)...)
		g.rules = append(g.rules, name)
	}
	p.query = leaf("data.t")
	if g.chance(20) && len(g.rules) > 0 {
		g.another(p)
		return p
	}
	if len(g.rules) > 0 && g.chance(70) {
		p.query = leaf("data.t." + g.rules[len(g.rules)-1])
	} else if g.chance(20) {
		p.query = g.body(2, 2)
		text := p.query.String()
		for _, name := range g.rules { // outside the package rules go by their full name
			text = strings.ReplaceAll(strings.ReplaceAll(text, "data.t."+name, name), name, "data.t."+name)
		}
		for name := range g.funcs {
			text = strings.ReplaceAll(text, name+"(", "data.t."+name+"(")
		}
		p.query = leaf(text)
	}
	return p
}
