package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

// timing is what a run of n calls took, each measured.
type timing struct{ mean, p50, p99 int64 }

func measure(n int, f func() error) (timing, error) {
	ns := make([]int64, n)
	for i := 0; i < n/10+1; i++ { // the first calls fill caches, ringfence's as well as OPA's
		if err := f(); err != nil {
			return timing{}, err
		}
	}
	start := time.Now()
	for i := range ns {
		from := time.Now()
		if err := f(); err != nil {
			return timing{}, err
		}
		ns[i] = time.Since(from).Nanoseconds()
	}
	mean := time.Since(start).Nanoseconds() / int64(n)
	slices.Sort(ns)
	return timing{mean, ns[(n-1)/2], ns[(n-1)*99/100]}, nil
}

// cores runs the same on one core and on all that Go takes by itself.
func cores(n int, what string, f func() error) error {
	all := runtime.GOMAXPROCS(0)
	for _, procs := range []int{1, all} {
		runtime.GOMAXPROCS(procs)
		t, err := measure(n, f)
		runtime.GOMAXPROCS(all)
		if err != nil {
			return err
		}
		fmt.Printf("%-28s GOMAXPROCS %-2d mean %10d ns   p50 %10d ns   p99 %10d ns\n", what, procs, t.mean, t.p50, t.p99)
	}
	return nil
}

func benchQuestion(q *question, n int) error {
	ctx := context.Background()
	p, err := prepare(ctx, q)
	if err != nil {
		return err
	}
	if len(q.Input) == 0 {
		return cores(n, "evaluation", func() error {
			_, err := p.Eval(ctx)
			return err
		})
	}
	input, err := ast.ValueFromReader(bytes.NewReader(q.Input))
	if err != nil {
		return err
	}
	err = cores(n, "evaluation", func() error {
		_, err := p.Eval(ctx, rego.EvalParsedInput(input))
		return err
	})
	if err != nil {
		return err
	}
	return cores(n, "input parsed and evaluation", func() error {
		input, err := ast.ValueFromReader(bytes.NewReader(q.Input))
		if err != nil {
			return err
		}
		_, err = p.Eval(ctx, rego.EvalParsedInput(input))
		return err
	})
}

func benchMain(args []string) error {
	f := flag.NewFlagSet("bench", flag.ExitOnError)
	n := f.Int("n", 1000, "how many evaluations of each")
	if err := f.Parse(args); err != nil {
		return err
	}
	in := lines()
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			return fmt.Errorf("a line is no question: %w", err)
		}
		fmt.Printf("%s\n", q.Query)
		if err := benchQuestion(&q, *n); err != nil {
			return err
		}
	}
	return in.Err()
}
