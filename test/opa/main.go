// What OPA and Gatekeeper say and how long they take, for comparison. See README.md.
package main

import (
	"fmt"
	"os"
)

func main() {
	verbs := map[string]func([]string) error{
		"eval":         evalMain,
		"bench":        benchMain,
		"gatekeeper":   gatekeeperMain,
		"differential": differentialMain,
	}
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "say what: opa-oracle eval | bench | gatekeeper | differential (-h after it: its options)")
		os.Exit(2)
	}
	if err := verbs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "opa-oracle %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
