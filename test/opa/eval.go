package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// question is one line of input; `ringfence policy batch` reads the same.
type question struct {
	Modules map[string]string `json:"modules,omitempty"`
	V0      bool              `json:"v0,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
	Input   json.RawMessage   `json:"input,omitempty"`
	Query   string            `json:"query"`
	Strict  bool              `json:"strict,omitempty"` // errors of builtins end the evaluation
	Term    bool              `json:"term,omitempty"`   // values as Rego prints them, in a string
	NowNS   int64             `json:"now_ns,omitempty"`
	Steps   int64             `json:"steps,omitempty"` // for ringfence only; OPA has a time limit
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type answer struct {
	Result    any      `json:"result,omitempty"`
	Undefined bool     `json:"undefined,omitempty"`
	Error     *failure `json:"error,omitempty"`
}

func (a answer) MarshalJSON() ([]byte, error) {
	switch {
	case a.Error != nil:
		return json.Marshal(map[string]any{"error": a.Error})
	case a.Undefined:
		return []byte(`{"undefined":true}`), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(map[string]any{"result": a.Result})
	return b.Bytes(), err
}

// What reaches out of the process, or differs from run to run.
var refused = map[string]bool{"http.send": true, "net.lookup_ip_addr": true, "opa.runtime": true,
	"rego.parse_module": true, "test.sleep": true}

func capabilities() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion()
	kept := c.Builtins[:0]
	for _, b := range c.Builtins {
		if !refused[b.Name] {
			kept = append(kept, b)
		}
	}
	c.Builtins = kept
	return c
}

var offline = capabilities()

func prepare(ctx context.Context, q *question) (rego.PreparedEvalQuery, error) {
	version := ast.RegoV1
	if q.V0 {
		version = ast.RegoV0
	}
	opts := []func(*rego.Rego){
		rego.Query(q.Query), rego.SetRegoVersion(version), rego.Capabilities(offline),
		rego.StrictBuiltinErrors(q.Strict),
	}
	names := make([]string, 0, len(q.Modules))
	for name := range q.Modules {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		opts = append(opts, rego.Module(name, q.Modules[name]))
	}
	data := map[string]any{}
	if len(q.Data) > 0 {
		d := json.NewDecoder(bytes.NewReader(q.Data))
		d.UseNumber()
		if err := d.Decode(&data); err != nil {
			return rego.PreparedEvalQuery{}, fmt.Errorf("data: %w", err)
		}
	}
	opts = append(opts, rego.Store(inmem.NewFromObjectWithOpts(data, inmem.OptRoundTripOnWrite(false))))
	return rego.New(opts...).PrepareForEval(ctx)
}

func failed(err error) answer {
	var compile ast.Errors
	var one *ast.Error
	var eval *topdown.Error
	switch {
	case errors.As(err, &eval):
		return answer{Error: &failure{eval.Code, eval.Message}}
	case errors.As(err, &compile) && len(compile) > 0:
		return answer{Error: &failure{compile[0].Code, compile[0].Message}}
	case errors.As(err, &one):
		return answer{Error: &failure{one.Code, one.Message}}
	}
	// rego.Errors and others only keep the text: "1 error occurred: file:1: code: text"
	for _, word := range strings.Fields(err.Error()) {
		if strings.HasSuffix(word, "_error:") {
			return answer{Error: &failure{strings.TrimSuffix(word, ":"), err.Error()}}
		}
	}
	return answer{Error: &failure{"failed", err.Error()}}
}

// ask answers one question in this process. Whatever goes wrong is an answer, too.
func ask(q *question, limit time.Duration, more ...rego.EvalOption) (ret answer) {
	defer func() {
		if r := recover(); r != nil {
			ret = answer{Error: &failure{"panic", fmt.Sprint(r)}}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	p, err := prepare(ctx, q)
	if err != nil {
		return failed(err)
	}
	opts := append([]rego.EvalOption{rego.EvalTime(time.Unix(0, q.NowNS).UTC())}, more...)
	if len(q.Input) > 0 {
		input, err := ast.ValueFromReader(bytes.NewReader(q.Input))
		if err != nil {
			return failed(fmt.Errorf("input: %w", err))
		}
		opts = append(opts, rego.EvalParsedInput(input))
	}
	if q.Term {
		opts = append(opts, rego.EvalGenerateJSON(func(t *ast.Term, _ *rego.EvalContext) (any, error) {
			return t.String(), nil
		}))
	}
	results, err := p.Eval(ctx, opts...)
	if err != nil {
		return failed(err)
	}
	return shape(results, q.Term)
}

// shape: the value of a query that is one expression without variables, else a list of its variables.
func shape(results rego.ResultSet, term bool) answer {
	if len(results) == 0 {
		return answer{Undefined: true}
	}
	if len(results) == 1 && len(results[0].Bindings) == 0 && len(results[0].Expressions) == 1 {
		return answer{Result: results[0].Expressions[0].Value}
	}
	list := make([]any, len(results))
	for i, r := range results {
		if !term {
			list[i] = r.Bindings
			continue
		}
		names := make([]string, 0, len(r.Bindings))
		for name := range r.Bindings {
			names = append(names, name)
		}
		sort.Strings(names)
		for j, name := range names {
			names[j] = fmt.Sprintf("%q: %v", name, r.Bindings[name])
		}
		list[i] = "{" + strings.Join(names, ", ") + "}"
	}
	return answer{Result: list}
}

const lineMax = 16 << 20

func lines() *bufio.Scanner {
	s := bufio.NewScanner(os.Stdin)
	s.Buffer(make([]byte, 1<<16), lineMax)
	return s
}

func evalMain(args []string) error {
	f := flag.NewFlagSet("eval", flag.ExitOnError)
	limit := f.Duration("limit", 5*time.Second, "time for one question")
	if err := f.Parse(args); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	in := lines()
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return fmt.Errorf("a line is no question: %w", err)
		}
		if err := out.Encode(ask(&q, *limit)); err != nil {
			return err
		}
	}
	return in.Err()
}
