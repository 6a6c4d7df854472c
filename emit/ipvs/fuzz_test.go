package ipvs_test

import (
	"net/netip"
	"testing"

	"svcc/emit"
	"svcc/emit/ipvs"
	"svcc/ir"
	"svcc/ir/eval"
)

// fuzzGlue asks sets of each number of dimensions.
const fuzzGlue = `*filter
:KUBE-X - [0:0]
-A KUBE-X -m set --match-set KUBE-A dst -j DROP
-A KUBE-X -m set --match-set KUBE-B dst,dst -j RETURN
-A KUBE-X -m set --match-set KUBE-C dst,dst,src -j ACCEPT
-A KUBE-X -m ipvs --vaddr 10.96.0.10 --vproto tcp --vport 80 -j DROP
-A INPUT -j KUBE-X
-A OUTPUT -j KUBE-X
COMMIT
`

// FuzzReadState reads any bytes as the sections beside the rules. What is read is
// printed so that it reads as the same, and walked without a panic to shares that
// add up.
func FuzzReadState(f *testing.F) {
	f.Add([]byte("create KUBE-A hash:ip family inet hashsize 1024 maxelem 65536 -exist\nflush KUBE-A\nadd KUBE-A 10.96.0.10\n"+
		"create KUBE-B hash:ip,port family inet hashsize 1024 maxelem 65536\nadd KUBE-B 10.96.0.10,tcp:80\n"+
		"create KUBE-C hash:ip,port,net family inet hashsize 1024 maxelem 65536\nadd KUBE-C 10.96.0.10,tcp:80,0.0.0.0/0\n"),
		[]byte("link add kube-ipvs0 type dummy\naddress replace 10.96.0.10/32 dev kube-ipvs0 nodad\n"),
		[]byte("-A -t 10.96.0.10:80 -s mh -p 10800 -b mh-port\n-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1\n-a -t 10.96.0.10:80 -r 10.244.1.6:8080 -m -w 3\n"))
	f.Add([]byte("create KUBE-A bitmap:port range 0-65535\nadd KUBE-A 80\ncreate KUBE-B hash:ip,port\ncreate KUBE-C hash:ip,port,ip\nadd KUBE-C 10.96.0.10,udp:80,10.244.1.5 -exist\n"),
		[]byte("# none\n"), []byte("-A --sctp-service 10.96.0.10:80 -s rr\n-a --sctp-service 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 0\n"))
	f.Add([]byte("create KUBE-A hash:ip family inet6\nadd KUBE-A fd00::1\n"), []byte("address replace fd00::1/128 dev kube-ipvs0\n"),
		[]byte("-A -u [fd00::1]:53 -s wlc -p 60 -M 128\n-a -u [fd00::1]:53 -r [fd00::2]:53 -m -w 65535\n"))
	f.Fuzz(func(t *testing.T, sets, addresses, servers []byte) {
		for _, family := range ir.Families {
			list := []emit.Section{
				{Tool: ipvs.ToolSets, Family: family, Text: sets},
				{Tool: ipvs.ToolGlue, Family: family, Text: []byte(fuzzGlue)},
				{Tool: ipvs.ToolAddresses, Family: family, Text: addresses},
				{Tool: ipvs.ToolServers, Family: family, Text: servers},
			}
			s, err := ipvs.ReadState(family, list)
			if err != nil {
				continue
			}
			again, err := ipvs.ReadState(family, s.Sections())
			if err != nil {
				t.Fatalf("what was read is not read again: %v", err)
			}
			for i, x := range again.Sections() {
				if was := s.Sections()[i]; string(x.Text) != string(was.Text) {
					t.Errorf("%s reads as another:\n%s\nwas\n%s", x.Tool, x.Text, was.Text)
				}
			}
			if w, err := (ipvs.Backend{}).Parse(family, list, true); err == nil {
				fuzzWalk(t, w, s)
			}
		}
	})
}

// fuzzWalk sends packets to each server's destination, from outside and from the
// node.
func fuzzWalk(t *testing.T, w emit.Walker, s *ipvs.State) {
	src := netip.MustParseAddrPort("198.51.100.7:40000")
	if s.Family == ir.IPv6 {
		src = netip.MustParseAddrPort("[2001:db8::7]:40000")
	}
	host := eval.Host{Addrs: s.Addresses}
	for _, v := range s.Servers {
		for _, in := range []string{"eth0", ""} {
			out, err := w.Walk(eval.Packet{Src: src, Dst: v.Address, Protocol: v.Protocol, In: in}, host)
			if err != nil {
				continue
			}
			var sum eval.Share
			for _, b := range out {
				if sum, err = sum.Add(b.Share); err != nil {
					break
				}
			}
			if err == nil && sum != eval.Whole {
				t.Errorf("%s: shares add up to %s:\n%s", v.Key, sum, out)
			}
		}
	}
}
