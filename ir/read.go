package ir

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ReadProgram reads what Program.Print wrote without origins: the "#:" lines
// of a ruleset file. The Program passes Check. An error names the line, counted
// from 1, and for what concerns a service port as a whole, its first line.
func ReadProgram(text string) (*Program, error) {
	r := reader{p: &Program{}}
	for line := range strings.Lines(text) {
		r.line++
		if err := r.read(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
	}
	if r.line < len(headRows) {
		return nil, fmt.Errorf("line %d: the program ends within its head", r.line+1)
	}
	if err := r.close(); err != nil {
		return nil, fmt.Errorf("line %d: %w", r.line, err)
	}
	return r.p, nil
}

// reader takes a Program's text line by line.
type reader struct {
	p     *Program
	line  int
	s     *ServicePort // the block that is open; nil before the first
	start int          // its first line
	rank  int          // of the block's last row in blockRows
	tags  []string     // of each endpoint of the block
	all   []Endpoint   // the block's endpoints
	extra []netip.AddrPort
	dead  []netip.AddrPort
}

// headRows are the lines before the first service port, in their order.
var headRows = []struct {
	prefix string
	read   func(p *Program, value string) error
}{
	{"program ", readHead},
	{"  mark ", readMark},
	{"  pods ", func(p *Program, v string) error { return p.Options.Pods.read(v) }},
	{"  node ports at ", func(p *Program, v string) error { return p.Options.NodePorts.read(v) }},
	{"  known endpoints ", func(p *Program, v string) (err error) { p.Known, err = readNumber(v, math.MaxInt); return err }},
}

func (r *reader) read(line string) error {
	if i := r.line - 1; i < len(headRows) {
		value, ok := strings.CutPrefix(line, headRows[i].prefix)
		if !ok {
			return fmt.Errorf("%q should begin with %q", clip(line), headRows[i].prefix)
		}
		if err := headRows[i].read(r.p, value); err != nil {
			return err
		}
		if r.line == len(headRows) {
			return r.p.Options.check(r.p.Family)
		}
		return nil
	}
	row, inside := strings.CutPrefix(line, "    ")
	name, outside := strings.CutPrefix(line, "  ")
	switch {
	case inside:
		return r.row(row)
	case outside:
		return r.open(name)
	}
	return fmt.Errorf("%q is no line of a program", clip(line))
}

// clip keeps messages short.
func clip(s string) string { return s[:min(len(s), 60)] }

// readHead reads "ipv4 [NAME] [IP] [zone ZONE]".
func readHead(p *Program, text string) error {
	family, rest, _ := strings.Cut(text, " ")
	var err error
	if p.Family, err = ParseFamily(family); err != nil {
		return err
	}
	words, err := splitWords(rest)
	if err != nil {
		return err
	}
	take := func(is func(w rawWord) bool) (w rawWord, ok bool) {
		if len(words) > 0 && is(words[0]) {
			w, words, ok = words[0], words[1:], true
		}
		return w, ok
	}
	zone := func(w rawWord) bool { return !w.quoted && w.text == "zone" }
	address := func(w rawWord) bool { return !w.quoted && isAddress(w.text) }
	if w, ok := take(func(w rawWord) bool { return !zone(w) && !address(w) }); ok {
		p.Node.Name = w.text
	}
	if w, ok := take(address); ok {
		p.Node.IP = netip.MustParseAddr(w.text)
	}
	if _, ok := take(zone); ok {
		if len(words) != 1 {
			return errors.New("after \"zone\" one word should follow")
		}
		p.Node.Zone, words = words[0].text, nil
	}
	if len(words) > 0 {
		return fmt.Errorf("%q does not belong after the node", words[0].text)
	}
	return nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// rawWord is a word and whether it was quoted.
type rawWord struct {
	text   string
	quoted bool
}

// splitWords takes words apart, quoted ones unquoted; none is empty.
func splitWords(s string) (out []rawWord, err error) {
	for s != "" {
		w := rawWord{quoted: s[0] == '"'}
		if w.quoted {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("%q: the quotation does not end", clip(s))
			}
			w.text, _ = strconv.Unquote(q)
			s = s[len(q):]
		} else {
			n := strings.IndexByte(s+" ", ' ')
			w.text, s = s[:n], s[n:]
		}
		if w.text == "" || !w.quoted && !plain(w.text) {
			return nil, fmt.Errorf("%q is no word", clip(w.text))
		}
		out = append(out, w)
		if rest, ok := strings.CutPrefix(s, " "); ok && rest != "" {
			s = rest
		} else if s != "" {
			return nil, fmt.Errorf("%q: one blank and a word should follow", clip(w.text))
		}
	}
	return out, nil
}

// readMark reads the mark and the switches after it.
func readMark(p *Program, text string) error {
	fields := strings.Split(text, "  ")
	mark, err := strconv.ParseUint(fields[0], 0, 32)
	if err != nil {
		return fmt.Errorf("mark %q is not a number of 32 bits", clip(fields[0]))
	}
	p.Options.MasqueradeMark = uint32(mark)
	for _, f := range fields[1:] {
		if known, err := p.Options.readVirtual(f); known || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		switch f {
		case "masquerade all":
			p.Options.MasqueradeAll = true
		case "localhost node ports":
			p.Options.LocalhostNodePorts = true
		case "drop invalid":
			p.Options.DropInvalid = true
		default:
			return fmt.Errorf("option %q is unknown", clip(f))
		}
	}
	return nil
}

// readVirtual takes a field that is a Virtual's; false if it is none.
func (o *Options) readVirtual(field string) (known bool, err error) {
	if name, ok := strings.CutPrefix(field, virtualWord); ok && o.Virtual == nil {
		o.Virtual = &Virtual{Scheduler: name}
		return true, nil
	}
	if o.Virtual == nil {
		return false, nil
	}
	return o.Virtual.read(field)
}

// read is the inverse of Detector.String.
func (d *Detector) read(text string) (err error) {
	if text == "not recognised" {
		return nil
	}
	if v, ok := strings.CutPrefix(text, "from "); ok {
		d.Kind = DetectCIDR
		d.Prefix, err = netip.ParsePrefix(v)
		return err
	}
	v, one := strings.CutPrefix(text, "by interface ")
	if d.Kind = DetectBridge; !one {
		var many, star bool
		d.Kind = DetectInterface
		v, many = strings.CutPrefix(text, "by interfaces ")
		if v, star = strings.CutSuffix(v, "*"); !many || !star {
			return fmt.Errorf("%q does not say how pods are recognised", clip(text))
		}
	}
	if v == `""` {
		return nil
	}
	words, err := splitWords(v)
	if err != nil || len(words) != 1 {
		return fmt.Errorf("%q is no interface", clip(v))
	}
	d.Interface = words[0].text
	return nil
}

// read is the inverse of NodePortAddresses.String.
func (n *NodePortAddresses) read(text string) error {
	switch text {
	case "every local address":
		n.All = true
		return nil
	case "no address":
		return nil
	}
	for item := range strings.SplitSeq(text, ", ") {
		if v, ok := strings.CutPrefix(item, "local addresses in "); ok {
			p, err := netip.ParsePrefix(v)
			if err != nil {
				return err
			}
			n.Prefixes = append(n.Prefixes, p)
			continue
		}
		a, err := netip.ParseAddr(item)
		if err != nil || len(n.Prefixes) > 0 {
			return fmt.Errorf("%q is no address that node ports answer at", clip(item))
		}
		n.Addrs = append(n.Addrs, a)
	}
	return nil
}

// readNumber reads a decimal number from 0 to most.
func readNumber(s string, most int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(most) {
		return 0, fmt.Errorf("%q is no number from 0 to %d", clip(s), most)
	}
	return int(n), nil
}

// open begins a service port's block.
func (r *reader) open(name string) error {
	if err := r.close(); err != nil {
		return err
	}
	n, err := readPortName(name)
	if err != nil {
		return err
	}
	*r = reader{p: r.p, line: r.line, s: &ServicePort{PortName: n}, start: r.line}
	return nil
}

// readPortName reads "ns/name[:port]/proto".
func readPortName(text string) (n PortName, err error) {
	i := strings.LastIndexByte(text, '/')
	ns, rest, ok := strings.Cut(text[:max(i, 0)], "/")
	name, port, named := strings.Cut(rest, ":")
	if !ok || !plainName(ns) || !plainName(name) || named && !plainName(port) {
		return n, fmt.Errorf("%q is no service port", clip(text))
	}
	n = PortName{Namespace: ns, Name: name, Port: port}
	n.Protocol, err = ParseProtocol(text[i+1:])
	return n, err
}

func plainName(s string) bool { return plain(s) && !strings.Contains(s, ":") }

// close ends the block that is open and holds it to the invariants. Its errors
// are of the block's first line.
func (r *reader) close() error {
	if r.s == nil {
		return nil
	}
	err := r.lists()
	if n := len(r.p.Services); err == nil && n > 0 && r.p.Services[n-1].Compare(r.s.PortName) >= 0 {
		err = fmt.Errorf("does not come after %s", r.p.Services[n-1].PortName)
	}
	if err == nil {
		err = r.s.check(r.p.Family)
	}
	if err != nil {
		r.line = r.start
		return fmt.Errorf("%s: %w", r.s.PortName, err)
	}
	r.p.Services = append(r.p.Services, r.s)
	return nil
}

// lists gives a service port its endpoints, once its policies are known.
func (r *reader) lists() error {
	usesLocal := r.s.usesLocal()
	for i, e := range r.all {
		switch tag := r.tags[i]; {
		case tag == tagLocalOnly && usesLocal:
			r.s.Local = append(r.s.Local, e)
		case tag == tagClusterOnly && usesLocal, tag == "":
			r.s.Cluster = append(r.s.Cluster, e)
		case tag == tagLocal:
			r.s.Cluster = append(r.s.Cluster, e)
			if usesLocal {
				r.s.Local = append(r.s.Local, e)
			}
		default:
			return fmt.Errorf("endpoint %s cannot be %q where no policy is local", e, tag)
		}
	}
	dead := map[netip.AddrPort]bool{}
	for _, a := range r.dead {
		dead[a] = true
	}
	chosen := endpointSet(r.all)
	if len(without(r.dead, chosen)) > 0 || len(without(r.extra, chosen)) < len(r.extra) {
		return errors.New("who serves contradicts the endpoints")
	}
	r.s.Serving = append(without(addrPorts(r.all), dead), r.extra...)
	slices.SortFunc(r.s.Serving, func(a, b netip.AddrPort) int { return strings.Compare(a.String(), b.String()) })
	return nil
}
