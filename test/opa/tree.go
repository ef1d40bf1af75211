package main

import (
	"fmt"
	"strings"
)

// node is a piece of policy text that can be made smaller: a leaf, a list whose kids can be left out, or fixed text
// around kids. term: may stand wherever a term stands, so a kid that is one can take its place.
type node struct {
	parts []string // around the kids, one more than there are; of a list: what opens and what closes it
	kids  []*node
	sep   string
	list  bool
	keep  int // of a list: kids that have to stay
	term  bool
}

func leaf(text string) *node { return &node{parts: []string{text}, term: true} }

func leaff(format string, args ...any) *node { return leaf(fmt.Sprintf(format, args...)) }

// form is text with a hole "@" for each kid.
func form(term bool, text string, kids ...*node) *node {
	parts := strings.Split(text, "@")
	if len(parts) != len(kids)+1 {
		panic("form: " + text)
	}
	return &node{parts: parts, kids: kids, term: term}
}

func list(term bool, open, sep, end string, keep int, kids ...*node) *node {
	return &node{parts: []string{open, end}, kids: kids, sep: sep, list: true, keep: keep, term: term}
}

func (n *node) write(b *strings.Builder) {
	if n.list {
		b.WriteString(n.parts[0])
		for i, k := range n.kids {
			if i > 0 {
				b.WriteString(n.sep)
			}
			k.write(b)
		}
		b.WriteString(n.parts[1])
		return
	}
	for i, part := range n.parts {
		b.WriteString(part)
		if i < len(n.kids) {
			n.kids[i].write(b)
		}
	}
}

func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

// shrink makes the tree as small as it gets while still() stays true, within so many tries.
func (n *node) shrink(still func() bool, tries *int) {
	for again := true; again && *tries > 0; {
		again = n.shrinkOnce(still, tries)
	}
}

func (n *node) shrinkOnce(still func() bool, tries *int) bool {
	try := func(change, undo func()) bool {
		if *tries <= 0 {
			return false
		}
		*tries--
		change()
		if still() {
			return true
		}
		undo()
		return false
	}
	if n.list {
		for i := len(n.kids) - 1; i >= 0 && len(n.kids) > n.keep; i-- {
			old := n.kids
			less := append(append([]*node{}, old[:i]...), old[i+1:]...)
			if try(func() { n.kids = less }, func() { n.kids = old }) {
				return true
			}
		}
	}
	for i := range n.kids {
		kid := n.kids[i]
		if kid.term && (len(kid.kids) > 0 || len(kid.parts[0]) > 4) {
			for _, small := range append(kid.terms(nil), leaf("1"), leaf(`"a"`)) {
				if try(func() { n.kids[i] = small }, func() { n.kids[i] = kid }) {
					return true
				}
			}
		}
		if kid.shrinkOnce(still, tries) {
			return true
		}
	}
	return false
}

// terms are the nearest terms below.
func (n *node) terms(to []*node) []*node {
	for _, k := range n.kids {
		if k.term {
			to = append(to, k)
		} else {
			to = k.terms(to)
		}
	}
	return to
}
