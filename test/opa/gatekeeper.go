package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	templatesv1 "github.com/open-policy-agent/frameworks/constraint/pkg/apis/templates/v1"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/drivers/rego"
	"github.com/open-policy-agent/frameworks/constraint/pkg/client/reviews"
	"github.com/open-policy-agent/frameworks/constraint/pkg/types"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/target"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const webhook = "validation.gatekeeper.sh" // the enforcement point of Gatekeeper's webhook

// policies: of each template's constraints the first, as `ringfence policy bench --review` takes them.
type policies struct{ templates, constraints []*unstructured.Unstructured }

func (p *policies) take(u *unstructured.Unstructured) {
	list := &p.constraints
	same := func(o *unstructured.Unstructured) bool { return o.GetKind() == u.GetKind() }
	if u.GetKind() == "ConstraintTemplate" {
		list = &p.templates
		same = func(o *unstructured.Unstructured) bool { return o.GetName() == u.GetName() }
	} else if u.GroupVersionKind().Group != "constraints.gatekeeper.sh" {
		return
	}
	for _, o := range *list {
		if same(o) {
			return
		}
	}
	*list = append(*list, u)
}

func (p *policies) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		p.take(u)
	}
}

func readPolicies(paths []string) (*policies, error) {
	p := &policies{}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(file, ".yaml") {
				return err
			}
			return p.read(file)
		})
		if err != nil {
			return nil, err
		}
	}
	if len(p.constraints) == 0 {
		return nil, errors.New("no ConstraintTemplate with a Constraint is in the .yaml files there")
	}
	return p, nil
}

// newClient is put together as Gatekeeper's own main does it: Rego driver, Kubernetes target, webhook.
func newClient(ctx context.Context, p *policies) (*client.Client, error) {
	driver, err := rego.New(rego.Defaults(), rego.Externs("inventory"))
	if err != nil {
		return nil, err
	}
	c, err := client.NewClient(client.Targets(&target.K8sValidationTarget{}), client.Driver(driver),
		client.EnforcementPoints(webhook))
	if err != nil {
		return nil, err
	}
	for _, u := range p.templates {
		var versioned templatesv1.ConstraintTemplate
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &versioned); err != nil {
			return nil, fmt.Errorf("template %s: %w", u.GetName(), err)
		}
		t, err := versioned.ToVersionless()
		if err != nil {
			return nil, fmt.Errorf("template %s: %w", u.GetName(), err)
		}
		if _, err := c.AddTemplate(ctx, t); err != nil {
			return nil, fmt.Errorf("template %s: %w", u.GetName(), err)
		}
	}
	for _, u := range p.constraints {
		if _, err := c.AddConstraint(ctx, u); err != nil {
			return nil, fmt.Errorf("constraint %s: %w", u.GetName(), err)
		}
	}
	return c, nil
}

func gatekeeperMain(args []string) error {
	f := flag.NewFlagSet("gatekeeper", flag.ExitOnError)
	n := f.Int("n", 200, "how many reviews of each")
	file := f.String("review", "", "an AdmissionReview, JSON")
	show := f.Bool("v", false, "print the violations")
	if err := f.Parse(args); err != nil {
		return err
	}
	p, err := readPolicies(f.Args())
	if err != nil {
		return err
	}
	ctx := context.Background()
	c, err := newClient(ctx, p)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	decode := func() (*target.AugmentedReview, error) {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(text, &review); err != nil {
			return nil, err
		}
		if review.Request == nil {
			return nil, errors.New("the review has no request")
		}
		return &target.AugmentedReview{AdmissionRequest: review.Request, IsAdmission: true}, nil
	}
	var last *types.Responses
	judge := func(r *target.AugmentedReview) error {
		last, err = c.Review(ctx, r, reviews.EnforcementPoint(webhook))
		return err
	}
	review, err := decode()
	if err != nil {
		return err
	}
	if err := judge(review); err != nil {
		return err
	}
	fmt.Printf("%d templates, %d constraints, %d bytes of review, %d violations\n", len(p.templates), len(p.constraints),
		len(text), len(last.Results()))
	for _, r := range last.Results() {
		if *show {
			fmt.Printf("%s %s: %s\n", r.Constraint.GetKind(), r.Constraint.GetName(), r.Msg)
		}
	}
	if err := cores(*n, "judged", func() error { return judge(review) }); err != nil {
		return err
	}
	err = cores(*n, "parsed and judged", func() error {
		r, err := decode()
		if err != nil {
			return err
		}
		return judge(r)
	})
	if err != nil {
		return err
	}
	return benchDirect(ctx, p, text, *n)
}

func benchDirect(ctx context.Context, p *policies, text []byte, n int) error {
	d, err := newDirect(ctx, p)
	if err != nil {
		return err
	}
	review, err := request(text)
	if err != nil {
		return err
	}
	fmt.Printf("OPA alone, without matching: %d queries, %d violations\n", len(d.query), d.judge(ctx, review))
	err = cores(n, "OPA alone, judged", func() error {
		d.judge(ctx, review)
		return nil
	})
	if err != nil {
		return err
	}
	return cores(n, "OPA alone, parsed and judged", func() error {
		review, err := request(text)
		if err != nil {
			return err
		}
		d.judge(ctx, review)
		return nil
	})
}
