package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// manyServices is n services with one slice of five endpoints each, in the
// layout of kubectl get -o yaml.
func manyServices(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, serviceText, i, i/250, i%250, i)
		for e := range 5 {
			fmt.Fprintf(&b, endpointText, i/250, i%250, e, i, e)
		}
	}
	return b.String()
}

const serviceText = `---
apiVersion: v1
kind: Service
metadata:
  annotations:
    meta.helm.sh/release-name: web
  creationTimestamp: "2026-03-01T08:00:00Z"
  labels:
    app.kubernetes.io/managed-by: Helm
    app.kubernetes.io/name: web
  name: svc-%[1]d
  namespace: demo
  resourceVersion: "7090293"
  uid: 28df6ec4-ce4a-2bbd-c241-330b01a9e71f
spec:
  clusterIP: 10.%[2]d.%[3]d.1
  clusterIPs:
  - 10.%[2]d.%[3]d.1
  internalTrafficPolicy: Cluster
  ipFamilies:
  - IPv4
  ipFamilyPolicy: SingleStack
  ports:
  - name: http
    port: 80
    protocol: TCP
    targetPort: 8080
  selector:
    app: web
  sessionAffinity: None
  type: ClusterIP
status:
  loadBalancer: {}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
addressType: IPv4
metadata:
  labels:
    kubernetes.io/service-name: svc-%[1]d
  name: svc-%[1]d-x
  namespace: demo
ports:
- name: http
  port: 8080
  protocol: TCP
endpoints:
`

const endpointText = `- addresses:
  - 10.%d.%d.%d
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-0
  targetRef:
    kind: Pod
    name: web-%d-%d
    namespace: demo
    uid: d8f56413-5be6-128e-18c2-67976142ea7d
  zone: zone-c
`

func BenchmarkLoad(b *testing.B) {
	file := filepath.Join(b.TempDir(), "in.yaml")
	text := manyServices(10000)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set, diags := Load([]string{file}, nil, Options{})
		if len(set.Services) != 10000 || len(diags) > 0 {
			b.Fatal(len(set.Services), diags)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "sys-MiB")
}
