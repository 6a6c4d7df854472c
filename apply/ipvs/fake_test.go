package ipvs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"svcc/apply"
	"svcc/apply/fake"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// node is a kernel for tests that behaves: sets, virtual servers, the link and
// iptables. It is the Kernel and the Runner of a Target, and fails on demand.
type node struct {
	tables    *fake.Kernel
	sets      map[string]*nodeSet
	servers   map[spec.Key]*Server
	link      bool
	bridge    bool // a device by the link's name is another
	addresses map[netip.Addr]bool
	timeouts  Timeouts

	noIPVS, noSets bool
	noSandbox      bool
	schedulers     []string
	others         map[string]int // references to sets by no rules
	holds          int            // how often sets are still in use after their rules went

	halving bool  // the write under way
	box     *node // where tools run, if not here
	writes  []string
	failAt  int               // the number of the write that fails, from 1
	late    bool              // it is done, and fails all the same
	dies    bool              // the process ends with it
	half    bool              // of what ipset was to restore, half is done
	after   func(what string) // is called after each write that was done
}

type nodeSet struct {
	kind    string
	maxElem int
	head    string // what follows the name in create
	entries map[string]bool
}

func newNode() *node {
	tables := fake.New()
	tables.Legacy = true
	return &node{
		tables: tables, sets: map[string]*nodeSet{}, servers: map[spec.Key]*Server{}, addresses: map[netip.Addr]bool{},
		timeouts: Timeouts{900, 120, 300}, schedulers: ir.Schedulers,
	}
}

var (
	errInjected = errors.New("injected fault")
	errKilled   = errors.New("killed")
)

// write counts a write and does it, unless it is to fail.
func (n *node) write(what string, do func() error) error {
	n.writes = append(n.writes, what)
	fails := len(n.writes) == n.failAt
	if fails && n.dies {
		panic(errKilled)
	}
	n.halving = fails && n.half && what == "ipset restore"
	if fails && !n.late && !n.halving {
		return errInjected
	}
	if err := do(); err != nil {
		return err
	}
	if n.after != nil {
		n.after(what)
	}
	if fails {
		return errInjected
	}
	return nil
}

// Run implements apply.Runner.
func (n *node) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	if n.box != nil {
		return n.box.Run(ctx, in)
	}
	if in.Tool == "ipset" {
		return n.ipset(in)
	}
	for _, m := range matchSet.FindAllStringSubmatch(string(in.Stdin), -1) {
		if n.sets[m[1]] == nil || in.Isolated {
			return nil, &apply.ToolError{Tool: in.Tool, Code: 2, Stderr: "Set " + m[1] + " doesn't exist.", Err: errors.New("exit status 2")}
		}
	}
	if !strings.HasSuffix(in.Tool, "restore") || slices.Contains(in.Args, "--test") || in.Isolated {
		return n.tables.Run(ctx, in)
	}
	err := n.write(in.Tool, func() error { _, err := n.tables.Run(ctx, in); return err })
	return nil, toolError(in, err)
}

// toolError is an injected fault as a tool's.
func toolError(in apply.Input, err error) error {
	if errors.Is(err, errInjected) {
		return &apply.ToolError{Tool: in.Tool, Args: in.Args, Code: 1, Err: err}
	}
	return err
}

var matchSet = regexp.MustCompile(`--match-set (\S+)`)

func (n *node) ipset(in apply.Input) ([]byte, error) {
	if n.noSets {
		return nil, &apply.ToolError{Tool: "ipset", Code: 1, Stderr: "ipset v7.17: Cannot open session to kernel.", Err: errors.New("exit status 1")}
	}
	switch in.Args[0] {
	case "version":
		return []byte("ipset v7.17, protocol version: 7\n"), nil
	case "save":
		return n.saveSets(), nil
	case "list":
		if slices.Contains(in.Args, "-t") {
			return n.listSets(), nil
		}
		return []byte(strings.Join(slices.Sorted(maps.Keys(n.sets)), "\n") + "\n"), nil
	}
	return nil, toolError(in, n.write("ipset restore", func() error { return n.restoreSets(in) }))
}

func (n *node) restoreSets(in apply.Input) error {
	line, end := 0, strings.Count(string(in.Stdin), "\n")
	if n.halving {
		end /= 2
	}
	for text := range strings.Lines(string(in.Stdin)) {
		if line == end {
			break
		}
		line++
		if err := n.setLine(strings.Fields(text)); err != nil {
			said := fmt.Sprintf("ipset v7.17: Error in line %d: %v", line, err)
			return &apply.ToolError{Tool: "ipset", Args: in.Args, Code: 1, Stderr: said, Err: errors.New("exit status 1")}
		}
	}
	return nil
}

func (n *node) saveSets() []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(n.sets)) {
		b = fmt.Appendf(b, "create %s %s\n", name, n.sets[name].head)
		for _, e := range slices.Sorted(maps.Keys(n.sets[name].entries)) {
			b = fmt.Appendf(b, "add %s %s\n", name, e)
		}
	}
	return b
}

// listSets has the kernel's counts of references.
func (n *node) listSets() []byte {
	var b []byte
	all := n.tables.SaveAll()
	for _, name := range slices.Sorted(maps.Keys(n.sets)) {
		b = fmt.Appendf(b, "Name: %s\nType: %s\nReferences: %d\nNumber of entries: %d\n\n", name, n.sets[name].kind,
			strings.Count(all, "--match-set "+name+" ")+n.others[name], len(n.sets[name].entries))
	}
	return b
}

// setLine does a line of ipset restore, with ipset's words for what is wrong.
func (n *node) setLine(w []string) error {
	set := n.sets[w[1]]
	switch {
	case w[0] == "create":
		return n.createSet(w)
	case !slices.Contains([]string{"add", "del", "swap", "destroy", "flush"}, w[0]):
		return errors.New("Unknown argument")
	case set == nil:
		return errors.New("The set with the given name does not exist")
	}
	switch w[0] {
	case "swap":
		other := n.sets[w[2]]
		if other == nil || other.kind != set.kind {
			return errors.New("The sets cannot be swapped: their type does not match")
		}
		n.sets[w[1]], n.sets[w[2]] = other, set
		return nil
	case "destroy":
		return n.destroySet(w[1])
	case "flush":
		clear(set.entries)
		return nil
	}
	return set.edit(w[0] == "add", strings.Join(w[2:], " "))
}

func (n *node) createSet(w []string) error {
	if n.sets[w[1]] != nil {
		return errors.New("Set cannot be created: set with the same name already exists")
	}
	s := &nodeSet{kind: w[2], head: strings.Join(w[2:], " "), entries: map[string]bool{}, maxElem: 65536}
	if i := slices.Index(w, "maxelem"); i > 0 {
		s.maxElem, _ = strconv.Atoi(w[i+1])
	}
	n.sets[w[1]] = s
	return nil
}

func (n *node) destroySet(name string) error {
	inUse := errors.New("Set cannot be destroyed: it is in use by a kernel component")
	if n.refers(name) || n.others[name] > 0 {
		return inUse
	}
	if n.holds > 0 {
		n.holds--
		return inUse
	}
	delete(n.sets, name)
	return nil
}

// edit adds or deletes an entry.
func (s *nodeSet) edit(add bool, entry string) error {
	switch {
	case add && s.entries[entry]:
		return errors.New("Element cannot be added to the set: it's already added")
	case add && len(s.entries) == s.maxElem:
		return errors.New("Hash is full, cannot add more elements")
	case !add && !s.entries[entry]:
		return errors.New("Element cannot be deleted from the set: it's not added")
	}
	if add {
		s.entries[entry] = true
	} else {
		delete(s.entries, entry)
	}
	return nil
}

func (n *node) refers(set string) bool {
	return strings.Contains(n.tables.SaveAll(), "--match-set "+set+" ")
}

// Servers implements Kernel.
func (n *node) Servers() ([]*Server, error) {
	if n.noIPVS {
		return nil, ErrNoIPVS
	}
	var out []*Server
	for _, s := range n.servers {
		c := *s
		c.Destinations = slices.Clone(s.Destinations)
		out = append(out, &c)
	}
	slices.SortFunc(out, func(a, b *Server) int { return a.Key.Compare(b.Key) })
	return out, nil
}

// Destinations implements Kernel.
func (n *node) Destinations(k spec.Key) ([]Destination, error) {
	if s := n.servers[k]; s != nil {
		return slices.Clone(s.Destinations), nil
	}
	return nil, nil
}

// Timeouts implements Kernel.
func (n *node) Timeouts() (Timeouts, error) {
	if n.noIPVS {
		return Timeouts{}, ErrNoIPVS
	}
	return n.timeouts, nil
}

// Link implements Kernel.
func (n *node) Link() (bool, []netip.Addr, error) {
	if n.bridge {
		return false, nil, fmt.Errorf("%w but a bridge", ErrLink)
	}
	return n.link, slices.SortedFunc(maps.Keys(n.addresses), netip.Addr.Compare), nil
}

// Do implements Kernel.
func (n *node) Do(o Op) error {
	if err := n.write(o.String(), func() error { return n.do(o) }); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

func (n *node) do(o Op) error {
	if o.Verb <= DelAddress {
		return n.doLink(o)
	}
	if n.noIPVS {
		return ErrNoIPVS
	}
	if o.Verb == SetTimeouts {
		n.timeouts = o.Timeouts.over(n.timeouts)
		return nil
	}
	s := n.servers[o.Server.Key]
	switch {
	case o.Verb == AddServer && s != nil:
		return syscall.EEXIST
	case o.Verb != AddServer && s == nil:
		return syscall.ESRCH
	case o.probed() && !slices.Contains(n.schedulers, o.Server.Scheduler):
		return explain(o, syscall.ENOENT)
	}
	switch o.Verb {
	case AddServer:
		c := o.Server.bare()
		n.servers[o.Server.Key] = &c
	case SetServer:
		c := o.Server.bare()
		c.Destinations = s.Destinations
		n.servers[o.Server.Key] = &c
	case DelServer:
		delete(n.servers, o.Server.Key)
	default:
		return s.do(o)
	}
	return nil
}

// do changes destinations.
func (s *Server) do(o Op) error {
	i := indexOf(s.Destinations, o.Destination.Address)
	switch {
	case o.Verb == AddDestination && i >= 0:
		return syscall.EEXIST
	case o.Verb != AddDestination && i < 0:
		return syscall.ENOENT
	}
	switch o.Verb {
	case AddDestination:
		s.Destinations = append(s.Destinations, o.Destination)
		slices.SortFunc(s.Destinations, func(a, b Destination) int { return a.Address.Compare(b.Address) })
	case SetDestination:
		connections := s.Destinations[i].Connections
		s.Destinations[i] = o.Destination
		s.Destinations[i].Connections = connections
	case DelDestination:
		s.Destinations = slices.Delete(s.Destinations, i, i+1)
	}
	return nil
}

func (n *node) doLink(o Op) error {
	switch {
	case (o.Verb == AddLink) == n.link:
		return map[bool]error{true: syscall.EEXIST, false: syscall.ENODEV}[n.link]
	case o.Verb == DelAddress && !n.addresses[o.Address]:
		return syscall.EADDRNOTAVAIL
	}
	switch o.Verb {
	case AddLink, DelLink:
		n.link = o.Verb == AddLink
		clear(n.addresses)
	case AddAddress:
		n.addresses[o.Address] = true
	case DelAddress:
		delete(n.addresses, o.Address)
	}
	return nil
}

// Sandbox implements Kernel.
func (n *node) Sandbox() (Sandbox, error) {
	if n.noSandbox {
		return nil, syscall.EPERM
	}
	box := newNode()
	box.schedulers = n.schedulers
	return nodeBox{n, box}, nil
}

type nodeBox struct{ of, box *node }

func (b nodeBox) Do(f func(Kernel)) {
	b.of.box = b.box
	f(b.box)
	b.of.box = nil
}

func (b nodeBox) Close() {}

// dump is all that a node holds, as text.
func (n *node) dump() string {
	var b strings.Builder
	b.WriteString(n.tables.SaveAll())
	b.Write(n.saveSets())
	_, addresses, _ := n.Link()
	fmt.Fprintf(&b, "link %v %v\ntimeouts %v\n", n.link, addresses, n.timeouts)
	all, _ := n.Servers()
	for _, s := range all {
		fmt.Fprintf(&b, "-A %s\n", s.text())
		for _, d := range s.Destinations {
			fmt.Fprintf(&b, "-a %s\n", s.destination(d))
		}
	}
	return b.String()
}
