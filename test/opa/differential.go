package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

func isJSON(text string) bool { return json.Valid([]byte(text)) }

// other is the engine that is compared: a process that answers questions line by line.
type other struct {
	path string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

func (o *other) start() error {
	o.cmd = exec.Command(o.path, "policy", "batch")
	o.cmd.Stderr = os.Stderr
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	o.out = bufio.NewReaderSize(out, 1<<16)
	return o.cmd.Start()
}

func (o *other) stop() {
	if o.cmd != nil {
		o.in.Close()
		o.cmd.Wait()
		o.cmd = nil
	}
}

// ask: a process that dies or does not answer is an answer, too.
func (o *other) ask(q *question, limit time.Duration) (answer, error) {
	if o.cmd == nil {
		if err := o.start(); err != nil {
			return answer{}, err
		}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	late := time.AfterFunc(limit, func() { o.cmd.Process.Kill() })
	_, err = o.in.Write(append(line, '\n'))
	var text []byte
	if err == nil {
		text, err = o.out.ReadBytes('\n')
	}
	if !late.Stop() {
		o.stop()
		return answer{Error: &failure{"hang", "no answer in " + limit.String()}}, nil
	}
	if err != nil {
		o.in.Close()
		err = o.cmd.Wait()
		o.cmd = nil
		return answer{Error: &failure{"crash", fmt.Sprint(err)}}, nil
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{Error: &failure{"garbage", string(text)}}, nil
	}
	return a, nil
}

// kind of an answer, for telling whether two differ in what matters. Texts of errors do not.
func kind(a answer) string {
	switch {
	case a.Error != nil:
		return a.Error.Code
	case a.Undefined:
		return "undefined"
	}
	return "value"
}

// Compile-time codes may differ where both refuse: which of two faults is found first is no promise.
func refusal(code string) bool { return strings.HasPrefix(code, "rego_") }

// Of several operands that are wrong, which is looked at first is no promise either.
func operand(code string) bool { return code == "eval_builtin_error" || code == "eval_type_error" }

func sameValue(a, b any) bool {
	la, ok1 := a.([]any)
	lb, ok2 := b.([]any)
	if !ok1 || !ok2 {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}
	var x, y []string
	for _, v := range la {
		x = append(x, fmt.Sprint(v))
	}
	for _, v := range lb {
		y = append(y, fmt.Sprint(v))
	}
	sort.Strings(x)
	sort.Strings(y)
	return slices.Equal(x, y)
}

// compare gives "" where both agree, else the kinds of both: "opa value, ringfence undefined".
func compare(opa, rf answer) string {
	a, b := kind(opa), kind(rf)
	switch {
	case a == "value" && b == "value":
		if sameValue(opa.Result, rf.Result) {
			return ""
		}
	case a == b || (refusal(a) && refusal(b)) || (operand(a) && operand(b)):
		return ""
	case a == "eval_cancel_error" || a == "eval_internal_error" || a == "panic":
		return ""
	}
	return "opa " + a + ", ringfence " + b
}

type comparison struct {
	rf    other
	limit time.Duration
}

func (c *comparison) run(p *generated) (string, answer, answer, error) {
	q := p.question()
	x := ask(q, c.limit)
	y, err := c.rf.ask(q, 4*c.limit)
	return compare(x, y), x, y, err
}

var word = regexp.MustCompile(`[a-z_0-9]+(\.[a-z_0-9]+)*\(|\b(not|every|with|else|default|contains|some|in|walk)\b`)

func (q *question) text() string { return q.Modules["t.rego"] + q.Modules["u.rego"] + q.Query }

var digits = regexp.MustCompile(`[0-9]+`)
var madeUp = regexp.MustCompile(`^f\d+\($`)

// fingerprint: findings of the same kind with the same functions and words are taken for the same.
func fingerprint(difference string, q *question, opa answer) string {
	if opa.Error != nil && refusal(opa.Error.Code) {
		return difference + " " + digits.ReplaceAllString(opa.Error.Message, "")
	}
	words := map[string]bool{}
	for _, w := range word.FindAllString(q.text(), -1) {
		if !madeUp.MatchString(w) {
			words[w] = true
		}
	}
	var list []string
	for w := range words {
		list = append(list, w)
	}
	sort.Strings(list)
	return difference + " " + strings.Join(list, " ")
}

func show(number int, difference string, q *question, opa, rf answer) {
	fmt.Printf("--- %d: %s\n", number, difference)
	if q.V0 || q.Strict {
		fmt.Printf("v0 %v, strict %v\n", q.V0, q.Strict)
	}
	fmt.Print(q.Modules["t.rego"], q.Modules["u.rego"])
	x, _ := json.Marshal(opa)
	y, _ := json.Marshal(rf)
	fmt.Printf("query: %s\ninput: %s\ndata: %s\nopa:       %s\nringfence: %s\n", q.Query, q.Input, q.Data, x, y)
}

func counts(of map[string]int) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, " %s %d", k, of[k])
	}
	if len(of) == 0 {
		return " none"
	}
	return b.String()
}

func differentialMain(args []string) error {
	f := flag.NewFlagSet("differential", flag.ExitOnError)
	path := f.String("ringfence", "", "the program to compare")
	seconds := f.Int("seconds", 60, "how long")
	seed := f.Int64("seed", time.Now().UnixNano(), "for the same policies again")
	stop := f.Int("findings", 50, "stop after so many different ones")
	each := f.Int("each", 1, "how many of the same kind to show")
	calls := f.Int("calls", 50, "percent that are one call of a builtin rather than a policy")
	only := f.String("only", "", "call only builtins whose name begins so")
	all := f.Bool("all", false, "known differences, too")
	skip := f.String("skip", "", "a regular expression of findings not to show: kind, policy and query")
	slow := f.Bool("slow", false, "show what OPA takes too long for")
	typesToo := f.Bool("types", false, "what OPA refuses by static types is a finding, too")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *path == "" {
		return errors.New("--ringfence PATH is needed")
	}
	c := &comparison{rf: other{path: *path}, limit: 5 * time.Second}
	defer c.rf.stop()
	r := rand.New(rand.NewSource(*seed))
	seen := map[string]int{}
	kinds, known := map[string]int{}, map[string]int{}
	findings, n := 0, 0
	until := time.Now().Add(time.Duration(*seconds) * time.Second)
	for ; time.Now().Before(until) && findings < *stop; n++ {
		g := newGenerator(r, *only)
		var p *generated
		if g.chance(*calls) {
			p = g.callOnly()
		} else {
			p = g.policy()
		}
		difference, opa, rf, err := c.run(p)
		if err != nil {
			return err
		}
		kinds[kind(opa)]++
		if kind(opa) == "eval_cancel_error" && *slow {
			fmt.Printf("slow: %s\n", p.question().Query)
		}
		if difference == "" || (!*typesToo && kind(opa) == "rego_type_error") {
			continue
		}
		if seen[fingerprint(difference, p.question(), opa)] >= *each {
			continue
		}
		tries := 300
		still := func() bool {
			d, x, y, err := c.run(p)
			if err != nil || d != difference {
				return false
			}
			opa, rf = x, y
			return true
		}
		for _, tree := range []*node{p.second, p.rules, p.input, p.data, p.query} {
			if tree != nil {
				tree.shrink(still, &tries)
			}
		}
		q := p.question()
		if name := knownAs(&finding{q, opa, rf, c}); name != "" && !*all {
			known[name]++
			continue
		}
		if *skip != "" && regexp.MustCompile(*skip).MatchString(difference+"\n"+q.text()) {
			continue
		}
		mark := fingerprint(difference, q, opa)
		if seen[mark]++; seen[mark] > *each {
			continue
		}
		findings++
		show(findings, difference, q, opa, rf)
	}
	fmt.Printf("OPA's answers:%s\nknown differences:%s\n", counts(kinds), counts(known))
	fmt.Printf("seed %d: %d policies, %d new findings\n", *seed, n, findings)
	if findings > 0 {
		return fmt.Errorf("%d new findings", findings)
	}
	return nil
}
