package ir

import "net/netip"

// Facts are what a mode does with packets where modes differ (semantics.md, section
// 1.13). Who needs to know asks for one of them by its name and not for the mode, so
// that another mode is another row of answers.
type Facts struct {
	// Decider is what decides where a packet goes, for people.
	Decider string
	// BindsAddresses: the node bears service addresses. A packet to one is for the
	// node and meets INPUT, and the node's own come from the address they go to.
	BindsAddresses bool
	// ListedNodePorts: node ports answer at the addresses of the node that the
	// Program lists, and never at loopback.
	ListedNodePorts bool
	// ExclusiveDestinations: a destination is of one service port alone, and an
	// endpoint that is somebody's destination is sent on from there.
	ExclusiveDestinations bool
	// MarksHairpin: a client that is its own endpoint gets the mark by which others
	// are masqueraded.
	MarksHairpin bool
	// RefusesUnknownPorts: a port of a service address that no service has is refused
	// rather than passed on.
	RefusesUnknownPorts bool
	// RemembersPerEndpoint: of session affinity, each endpoint remembers a number of
	// clients of its own.
	RemembersPerEndpoint bool
	// Schedules: a scheduler can be chosen, for all services or for one.
	Schedules bool
}

// The facts of nodes whose rules decide alone, and of nodes with virtual servers.
var (
	RuleFacts = Facts{
		Decider:      "rules alone",
		MarksHairpin: true, RemembersPerEndpoint: true,
	}
	ServerFacts = Facts{
		Decider:        "virtual servers",
		BindsAddresses: true, ListedNodePorts: true, ExclusiveDestinations: true, RefusesUnknownPorts: true, Schedules: true,
	}
)

// Facts are those of the mode that the choices are for.
func (o *Options) Facts() *Facts {
	if o.Virtual != nil {
		return &ServerFacts
	}
	return &RuleFacts
}

// Own are the addresses of the node's interfaces, where it matters for the mode
// whether they have a service's address (Virtual.Own); nil elsewhere.
func (o *Options) Own() []netip.Addr {
	if o.Virtual == nil {
		return nil
	}
	return o.Virtual.Own
}
