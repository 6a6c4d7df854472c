package emit

import "svcc/ir/eval"

// Auditor is a Walker over what a node has that can say more of it than what
// becomes of a packet.
type Auditor interface {
	Walker
	// Captured is the first rule of another program that takes a new packet away
	// before one of kube-proxy's or svcc's sees it; ok says whether there is one.
	Captured(p eval.Packet, h eval.Host) (c Capture, ok bool)
	// Remarks tell, in a sentence each, what is unusual and no difference.
	Remarks() []string
	// Age is which kube-proxy the rules' vocabulary is of.
	Age() Age
}

// Capture is a rule that a packet meets too early.
type Capture struct {
	Rule string // "table nat: line 7: -A ..."
	Sure bool   // whether every such packet does, whoever sends it
}

// Age is a range of kube-proxy's minor versions of Kubernetes 1; 0 for no bound.
type Age struct {
	From, Before int
	// Signs are what gives the last bound away.
	Signs string
}
