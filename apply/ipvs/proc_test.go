package ipvs

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

const procText = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:0050 rr persistent 10800 FFFFFFFF
  -> 0A000002:1F90      Masq    1      3          4         
  -> 0A000001:1F90      Route   0      0          0         
FWM  00000005 wlc 
  -> 0A000009:0000      Tunnel  1      0          0         
UDP  [fd00:0000:0000:0000:0000:0000:0000:0001]:0035 rr 
  -> [fd01:0000:0000:0000:0000:0000:0000:0002]:0035      Masq    65535  0          1         
SCTP 0A600002:0063 sh ops 
`

func TestReadDestinations(t *testing.T) {
	got, err := readDestinations([]byte(procText))
	if err != nil {
		t.Fatal(err)
	}
	want := map[spec.Key][]Destination{
		{Protocol: ir.TCP, Address: netip.MustParseAddrPort("10.96.0.1:80")}: {
			{Address: netip.MustParseAddrPort("10.0.0.2:8080"), Weight: 1, Connections: 7},
			{Address: netip.MustParseAddrPort("10.0.0.1:8080"), Method: 3},
		},
		{Protocol: ir.UDP, Address: netip.MustParseAddrPort("[fd00::1]:53")}: {
			{Address: netip.MustParseAddrPort("[fd01::2]:53"), Weight: 65535, Connections: 1},
		},
		{Protocol: ir.SCTP, Address: netip.MustParseAddrPort("10.96.0.2:99")}: nil,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, odd := range []string{"TCP  0A600001 rr", "TCP  0A60000x:0050 rr", "ICMP 0A600001:0050 rr", "TCP 0A600001:0050 rr\n -> 0A000001:0050 Magic 1 0 0",
		"TCP 0A600001:0050 rr\n -> 0A000001:0050 Masq 1 0"} {
		if _, err := readDestinations([]byte(odd)); err == nil || !strings.Contains(err.Error(), "0A6") && !strings.Contains(err.Error(), "0A0") {
			t.Errorf("%q: %v", odd, err)
		}
	}
}
