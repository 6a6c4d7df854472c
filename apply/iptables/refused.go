package iptables

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"svcc/apply"
)

// RefusedError is a line that a tool or the kernel did not take.
type RefusedError struct {
	Line    int    // in the input, from 1; 0 if the tool did not say which
	Text    string // the line
	Service string // "namespace/name:port" that it is for; "" if for none
	Err     error  // what the tool said
}

func (e *RefusedError) Error() string {
	where := "a rule"
	if e.Line > 0 {
		where = fmt.Sprintf("line %d", e.Line)
	}
	return fmt.Sprintf("%s%s was refused: %s: %v", where, forService(e.Service), e.Text, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// The places where the tools name a line, the surest first.
var linePlaces = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^line (\d+): `),               // iptables-nft: what the kernel refused
	regexp.MustCompile(`(?m)line (\d+) failed`),           // both: a command that failed
	regexp.MustCompile(`(?m)occurred at line: (\d+)\s*$`), // both: words that are not understood
}

// explain tells what a tool's failure means: a lock that is held, or a line that
// was refused. Where the kernel refused a table of iptables-legacy as a whole,
// the tool names the line of its COMMIT; that is told as it is.
func explain(err error, in apply.Input) error {
	var tool *apply.ToolError
	if !errors.As(err, &tool) {
		return err
	}
	if tool.Code == 4 && strings.Contains(tool.Stderr, "xtables lock") {
		return fmt.Errorf("%w: %w", apply.ErrLocked, err)
	}
	for _, place := range linePlaces {
		m := place.FindStringSubmatch(tool.Stderr)
		if m == nil {
			continue
		}
		n, _ := strconv.Atoi(m[1])
		lines := strings.Split(string(in.Stdin), "\n")
		if n < 1 || n > len(lines) {
			return err
		}
		return &RefusedError{Line: n, Text: lines[n-1], Service: serviceOf(lines[n-1], servicesOf(lines)), Err: err}
	}
	return err
}
