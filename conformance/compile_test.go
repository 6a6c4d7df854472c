package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/emit/mode"
	"svcc/ir/diag"
)

// defaulted is what an API server makes of the world's objects, which kube-proxy
// is given.
func (w *world) defaulted() (services []*corev1.Service, list []*discoveryv1.EndpointSlice) {
	for _, s := range w.services {
		s = s.DeepCopy()
		scheme.Default(s)
		services = append(services, s)
	}
	for _, x := range w.slices {
		x = x.DeepCopy()
		scheme.Default(x)
		list = append(list, x)
	}
	return services, list
}

// manifests are the objects as they are, as a stream of JSON documents.
func (w *world) manifests(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	add := func(o runtime.Object) {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n")
		b.Write(flow(m))
		b.WriteString("\n")
	}
	for _, n := range w.nodes {
		add(n)
	}
	for _, s := range w.services {
		add(s)
	}
	for _, x := range w.slices {
		add(x)
	}
	return b.Bytes()
}

// compile is what svcc makes of the world at -O0. It has no units if IPVS mode
// refuses the world for what this mode alone cannot do.
func (w *world) compile(t *testing.T, m *mode.Mode) *compiler.Result {
	t.Helper()
	args := []string{"-", "-O0", "--mode=" + m.Name, "--node=" + thisNode, "--detect-local-mode=" + w.detect,
		fmt.Sprintf("--masquerade-bit=%d", w.masqueradeBit), fmt.Sprintf("--masquerade-all=%t", w.masqueradeAll),
		fmt.Sprintf("--localhost-nodeports=%t", w.localhostNodePorts), fmt.Sprintf("--tcp-be-liberal=%t", w.liberal)}
	if m == mode.IPVS && w.scheduler != "" {
		args = append(args, "--scheduler="+w.scheduler)
	}
	if len(w.clusterCIDRs) > 0 && w.detect == "ClusterCIDR" {
		args = append(args, "--cluster-cidr="+strings.Join(w.clusterCIDRs, ","))
	}
	if len(w.nodePortAddresses) > 0 {
		args = append(args, "--nodeport-addresses="+strings.Join(w.nodePortAddresses, ","))
	}
	if name, ok := interfaces[w.detect]; ok {
		args = append(args, "--detect-local-interface="+name)
	}
	o, err := cli.BuildOptions(args, "")
	if err != nil {
		t.Fatal(err)
	}
	o.Stdin, o.LocalAddrs = bytes.NewReader(w.manifests(t)), w.ownAddrs()
	r, err := compiler.Compile(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics.Errors() {
		if m != mode.IPVS || d.Code != diag.EndpointIsDestination && d.Code != diag.DestinationShared {
			t.Fatalf("nothing is compiled: %v\n%s", r.Diagnostics.Errors(), w.manifests(t))
		}
	}
	return r
}

// interfaces are the names by which pods are recognised, by detectLocalMode.
var interfaces = map[string]string{"BridgeInterface": "cbr0", "InterfaceNamePrefix": "veth"}
