package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"svcc/apply"
	"svcc/apply/conntrack"
	"svcc/apply/state"
	"svcc/ir"
)

// engineFlags are the flags of every command that deals with the node.
type engineFlags struct {
	mode, dir, logFormat, conntrack string
	lock, confirm, drain, tool      time.Duration
	dryRun, takeOver, allowShrink   bool
	retry                           bool
	canaries                        bool // whether kube-proxy's are to go too
	removing                        bool
}

// registerState registers what every such command has.
func (e *engineFlags) registerState(f *pflag.FlagSet) {
	f.StringVar(&e.dir, "state-dir", state.DefaultPath, "where the rulesets, the record and the journal are kept")
	f.StringVar(&e.logFormat, "log-format", "text", "what is said on standard error: text or json")
}

// toolFlag registers how long each tool may run.
func toolFlag(f *pflag.FlagSet, limit *time.Duration) {
	f.DurationVar(limit, "tool-timeout", 5*time.Minute, "how long each run of iptables-save, ipset and the like may take; then it is killed, and has failed (0: no limit)")
}

// registerChange registers what commands that change the node have.
func (e *engineFlags) registerChange(f *pflag.FlagSet) {
	e.registerState(f)
	toolFlag(f, &e.tool)
	f.BoolVar(&e.dryRun, "dry-run", false, "show and check what would be done; change nothing")
	f.BoolVar(&e.takeOver, "take-over", false, "go on although kube-proxy runs, or its rules or virtual servers of others are in the way")
	f.DurationVar(&e.lock, "lock-timeout", 30*time.Second, "how long to wait for another run of svcc, and for the xtables lock")
	f.StringVar(&e.conntrack, "conntrack", "on", "delete the entries of UDP flows that go where no new flow would go: on, off, dry-run")
}

func (e *engineFlags) registerConfirm(f *pflag.FlagSet) {
	f.DurationVar(&e.confirm, "confirm-timeout", 0, "take the rules back unless \"svcc confirm\" comes within this time")
}

func (e *engineFlags) registerRetry(f *pflag.FlagSet) {
	f.BoolVar(&e.retry, "retry-unconfirmed", false, "apply a ruleset for good although nobody confirmed it when it was tried")
}

// engine makes the engine. Canaries are kube-proxy's, which go only when it is
// to be gone altogether.
func (e *engineFlags) engine(s streams, quiet, canaries bool) (*apply.Engine, error) {
	if e.mode != "" {
		if _, err := modeNamed(e.mode); err != nil {
			return nil, err
		}
	}
	log, err := newLog(s.err, e.logFormat, quiet)
	if err != nil {
		return nil, err
	}
	out := &apply.Engine{
		State: state.At(e.dir),
		Log:   log,
		Options: apply.Options{
			Who: who(), TakeOver: e.takeOver, AllowShrink: e.allowShrink, DryRun: e.dryRun,
			LockTimeout: e.lock, ConfirmTimeout: e.confirm, RetryUnconfirmed: e.retry,
		},
		Guard: e.guard,
	}
	e.canaries = canaries
	e.aimAt(out, e.mode)
	out.Flows, err = flows(e.conntrack, log)
	return out, err
}

// flows gives what --conntrack asks for.
func flows(how string, log *slog.Logger) (func(context.Context, []*ir.Program, []*ir.Program) error, error) {
	switch how {
	case "off", "":
		return nil, nil
	case "on", "dry-run":
	default:
		return nil, fmt.Errorf("--conntrack %q is none of on, off, dry-run", how)
	}
	return func(ctx context.Context, before, after []*ir.Program) error {
		r, err := conntrack.Clean(ctx, conntrack.Kernel{}, before, after, how == "dry-run")
		if len(r.Stale) > 0 {
			log.Info(r.String())
		}
		return err
	}, nil
}

// who names the user for the record.
func who() string {
	name := fmt.Sprintf("uid %d", os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" {
		name += ", by sudo of " + by
	}
	return strings.Map(printable, name)
}

// nodeName is the node that this is unless a flag says otherwise: $NODE_NAME, or
// the host name as kube-proxy takes it.
func nodeName() (string, error) {
	name := os.Getenv("NODE_NAME")
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("the node's name is not known; give --node: %w", err)
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

// interruptible gives a context that ends when somebody wants svcc to stop. A
// terminal that goes away is a reason to stop, unless the run waits for a
// confirmation: that it may never come is why it waits. A reader that goes away
// is none: what svcc does matters more than what it says.
func (e *engineFlags) interruptible() (context.Context, context.CancelFunc) {
	signal.Ignore(syscall.SIGPIPE)
	stop := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	switch {
	case e.confirm > 0:
		signal.Ignore(syscall.SIGHUP)
	case !signal.Ignored(syscall.SIGHUP):
		stop = append(stop, syscall.SIGHUP)
	}
	return untilTold(stop)
}

// untilTold gives a context that ends with the first of these signals. They are
// caught to the process's end: one that comes after the last thing has been done
// must not make a failure of it.
func untilTold(stop []os.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	told := make(chan os.Signal, 1)
	signal.Notify(told, stop...)
	go func() { cancel(fmt.Errorf("%s signal received", <-told)) }()
	return ctx, func() { cancel(nil) }
}
