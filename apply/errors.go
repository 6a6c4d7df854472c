package apply

import "errors"

// What an Engine refuses to do; nothing was written.
var (
	ErrKubeProxy  = errors.New("kube-proxy programs this node")
	ErrNode       = errors.New("the ruleset is for another node")
	ErrMode       = errors.New("the ruleset is of another mode")
	ErrFlavour    = errors.New("the other flavour of iptables, whose rules the tools here do not see, has rules of Services")
	ErrShrink     = errors.New("more than half of the services would lose their endpoints")
	ErrNoPrevious = errors.New("there is no previous ruleset to go back to (svcc remove takes away what is in force)")
	ErrNoneWaits  = errors.New("no apply waits to be confirmed")
)

// ErrUnconfirmed is a run that was undone because nobody confirmed it in time.
var ErrUnconfirmed = errors.New("nobody confirmed in time")

// ErrHalfMade is a kernel that holds neither the old state nor the new one. The
// journal is kept, so that the next run can mend it.
var ErrHalfMade = errors.New("the old state could not be put back")
