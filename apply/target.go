package apply

import (
	"context"
	"errors"
	"time"

	"svcc/emit"
	"svcc/ir"
)

// Target is one way to program the kernel: by iptables alone, or by IPVS with
// iptables beside it. Its methods write nothing but Commit and Restore.
type Target interface {
	// Observe reads our part of the kernel, both families, whatever the
	// desired ruleset has.
	Observe(ctx context.Context) (Observed, error)
	// Plan gives what must be written so that the kernel holds desired, which
	// may be nil: then all that is ours is to go. An empty Plan means that
	// nothing differs. The jumps from built-in chains are part of it whatever
	// the ruleset's head says of hooks: that concerns who loads it by hand.
	Plan(desired *emit.Ruleset, from Observed) (Plan, error)
	// Check tries a Plan without touching the node's rules; what could not be
	// tried is named in notes.
	Check(ctx context.Context, p Plan) (notes []string, err error)
	// Commit writes a Plan; an empty one runs no tool. An error leaves each
	// table old or new, and of the rest any part done; that is for Restore to
	// mend. It is ErrLocked if a lock was held too long.
	Commit(ctx context.Context, p Plan) error
	// Restore brings our part of the kernel back to what was observed, from
	// whatever state it is in; done twice, the second writes nothing. It takes
	// what Load made of a file as well.
	Restore(ctx context.Context, to Observed) error
	// Load reads what Observed.Marshal gave.
	Load([]byte) (Observed, error)
	// Live reads all that decides about a family's packets, whosever it is.
	Live(ctx context.Context, f ir.Family) ([]emit.Section, error)

	// Preflight tells beforehand what would keep it from working, such as a missing
	// tool, and names the tools' flavour for the record.
	Preflight(ctx context.Context) (flavour string, err error)
	// Remember is told what earlier runs made (Plan.Makes), to be known from what
	// others did.
	Remember(made []string)
	// Leaves are the modes of which it takes away what is left when it brings the
	// node to a ruleset of its own, and of which it understands what was observed.
	Leaves() []string
	// Other looks for rules of ours or kube-proxy's that the tools do not see, since
	// they come in two flavours and the kernel obeys both: a Target for them, and
	// what they are, in words; nil if there are none. It costs little.
	Other(ctx context.Context) (other Target, what string, err error)
	// Left is given what was observed once all was removed that can be. It says what
	// stays and why, a line for each.
	Left(ctx context.Context, now Observed) ([]string, error)

	// Recall makes reading faster with what Seen gave once, in an earlier run; an
	// error means that it is no use.
	Recall(seen []byte) error
	// Seen is what was read last; nil if it is of no use to a later run.
	Seen() []byte
	// Forget makes the next reading one of everything.
	Forget()
}

// Observed is our part of the kernel at one moment, in a form that can be kept
// in a file (Marshal) and given to Restore later, by another process.
type Observed interface {
	Marshal() []byte
	// Equal says that both hold the same, but for what changes by itself:
	// counters, connections and what drains.
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
	// Makes names what this Plan creates that other programs use too, so that
	// only a record can later tell it to be ours: "ipv4 filter KUBE-FIREWALL",
	// "ipv4 nat" for a table.
	Makes() []string
}

// Change is one rule or chain that a Plan adds or removes, or what a mode has in
// its place: an entry of a set, an address, a virtual server, a destination.
type Change struct {
	Family  string `json:"family"`
	Table   string `json:"table"` // "nat"; beside tables "ipset", "address", "ipvs"
	Chain   string `json:"chain"` // or set, link, virtual server
	Add     bool   `json:"add"`
	Rule    string `json:"rule,omitempty"`    // in canonical form; "" for the chain itself
	Service string `json:"service,omitempty"` // "namespace/name:port"; "" if it is not of one
}

// Input is one run of a tool that writes.
type Input struct {
	Tool  string   // "iptables-restore"
	Args  []string // "-w", "5", "--noflush"
	Stdin []byte
	// Isolated runs the tool in a new, empty network namespace that ends with
	// it, under a lock file of its own. It fails without CAP_SYS_ADMIN.
	Isolated bool
	// Waits is how long the tool may wait for a lock, by its arguments.
	Waits time.Duration
}

// ErrAnswer is what a tool said of the kernel that cannot be so, although it says
// that all went well. Nothing is concluded from it.
var ErrAnswer = errors.New("the tool's answer is not believed")

// ErrLocked is a lock of the tools that another process held longer than the
// lock timeout.
var ErrLocked = errors.New("another process holds the xtables lock")
