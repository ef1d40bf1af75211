package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// direct asks OPA itself, one prepared query for each constraint, without Gatekeeper's driver, its matching and its
// conversions: what the same policies would cost at the very least with OPA.
type direct struct {
	query      []rego.PreparedEvalQuery
	parameters []*ast.Term
}

// source is a template's Rego: the old place, or under code with its version.
func source(u *unstructured.Unstructured) (text string, libs []string, version ast.RegoVersion) {
	targets, _, _ := unstructured.NestedSlice(u.Object, "spec", "targets")
	version = ast.RegoV0
	for _, t := range targets {
		target, _ := t.(map[string]any)
		text, _, _ = unstructured.NestedString(target, "rego")
		libs, _, _ = unstructured.NestedStringSlice(target, "libs")
		codes, _, _ := unstructured.NestedSlice(target, "code")
		for _, c := range codes {
			code, _ := c.(map[string]any)
			if engine, _, _ := unstructured.NestedString(code, "engine"); engine != "Rego" {
				continue
			}
			text, _, _ = unstructured.NestedString(code, "source", "rego")
			libs, _, _ = unstructured.NestedStringSlice(code, "source", "libs")
			if v, _, _ := unstructured.NestedString(code, "source", "version"); v == "v1" {
				version = ast.RegoV1
			}
		}
	}
	return text, libs, version
}

func (d *direct) add(ctx context.Context, template, constraint *unstructured.Unstructured) error {
	text, libs, version := source(template)
	m, err := ast.ParseModuleWithOpts("template.rego", text, ast.ParserOptions{RegoVersion: version})
	if err != nil {
		return fmt.Errorf("template %s: %w", template.GetName(), err)
	}
	opts := []func(*rego.Rego){rego.Query(m.Package.Path.String() + ".violation"), rego.SetRegoVersion(version),
		rego.Module("template.rego", text), rego.Capabilities(offline)}
	for i, lib := range libs {
		opts = append(opts, rego.Module(fmt.Sprintf("lib%d.rego", i), lib))
	}
	q, err := rego.New(opts...).PrepareForEval(ctx)
	if err != nil {
		return fmt.Errorf("template %s: %w", template.GetName(), err)
	}
	parameters, _, _ := unstructured.NestedMap(constraint.Object, "spec", "parameters")
	if parameters == nil {
		parameters = map[string]any{}
	}
	v, err := ast.InterfaceToValue(parameters)
	if err != nil {
		return err
	}
	d.query = append(d.query, q)
	d.parameters = append(d.parameters, ast.NewTerm(v))
	return nil
}

func newDirect(ctx context.Context, p *policies) (*direct, error) {
	d := &direct{}
	for _, c := range p.constraints {
		for _, t := range p.templates {
			if strings.EqualFold(t.GetName(), c.GetKind()) {
				if err := d.add(ctx, t, c); err != nil {
					return nil, err
				}
			}
		}
	}
	return d, nil
}

// request is the AdmissionRequest in the review's text.
func request(text []byte) (*ast.Term, error) {
	v, err := ast.ValueFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r, err := v.Find(ast.Ref{ast.StringTerm("request")})
	return ast.NewTerm(r), err
}

// judge counts violations; an evaluation that fails is one, as in Gatekeeper.
func (d *direct) judge(ctx context.Context, review *ast.Term) (violations int) {
	for i, q := range d.query {
		input := ast.NewObject([2]*ast.Term{ast.StringTerm("review"), review},
			[2]*ast.Term{ast.StringTerm("parameters"), d.parameters[i]})
		results, err := q.Eval(ctx, rego.EvalParsedInput(input))
		if err != nil {
			violations++
		}
		for _, r := range results {
			if list, ok := r.Expressions[0].Value.([]any); ok {
				violations += len(list)
			}
		}
	}
	return violations
}
