package apply

import (
	"context"

	"svcc/emit"
)

// Target is one way to program the kernel: iptables today. Its methods write
// nothing but Commit and Restore.
type Target interface {
	// Observe reads our part of the kernel, both families, whatever the
	// desired ruleset has.
	Observe(ctx context.Context) (Observed, error)
	// Plan gives what must be written so that the kernel holds desired, which
	// may be nil: then all that is ours is to go. An empty Plan means that
	// nothing differs.
	Plan(desired *emit.Ruleset, from Observed) (Plan, error)
	// Check tries a Plan without touching the node's rules; what could not be
	// tried is named in notes.
	Check(ctx context.Context, p Plan) (notes []string, err error)
	// Commit writes a Plan. An error leaves each table old or new.
	Commit(ctx context.Context, p Plan) error
	// Restore brings the kernel back to what was observed.
	Restore(ctx context.Context, to Observed) error
}

// Observed is our part of the kernel at one moment, in a form that can be kept
// in a file (Marshal) and given to Restore later, by another process.
type Observed interface {
	Marshal() []byte
	// Equal says that both hold the same rules, counters aside.
	Equal(Observed) bool
}

// Plan is a set of writes.
type Plan interface {
	Empty() bool
	// Whole says that everything ours is written anew, not only what differs.
	Whole() bool
	// Rules lists the differences for people, sorted: chains and rules that
	// come and go, as in a unified diff.
	Rules() []Change
	// Inputs is what the tools will be given, in order; for --dry-run, the
	// journal and tests.
	Inputs() []Input
}

// Change is one rule or chain that a Plan adds or removes.
type Change struct {
	Family, Table, Chain string
	Add                  bool
	Rule                 string // "" for the chain itself
}

// Input is one run of a tool that writes.
type Input struct {
	Tool  string   // "iptables-restore"
	Args  []string // "-w", "5", "--noflush"
	Stdin []byte
}
