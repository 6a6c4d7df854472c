package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// addService makes the i-th Service and its slices.
func (g *generator) addService(i int, k *kind) {
	s := g.plain(i, k)
	k.dress(g, s)
	g.annotate(s)
	g.out.Services = append(g.out.Services, s)
	if s.Spec.Type != corev1.ServiceTypeExternalName {
		g.addSlices(s, g.counts[i])
	}
}

// plain gives a ClusterIP Service with all that the API server defaults.
func (g *generator) plain(i int, k *kind) *corev1.Service {
	s := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: g.serviceMeta(i),
	}
	s.Spec = corev1.ServiceSpec{
		Type:                  corev1.ServiceTypeClusterIP,
		Selector:              map[string]string{"app": s.Name},
		SessionAffinity:       corev1.ServiceAffinityNone,
		InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyCluster),
		IPFamilies:            g.families(),
		IPFamilyPolicy:        ptr(corev1.IPFamilyPolicySingleStack),
		Ports:                 g.ports(k),
	}
	if len(s.Spec.IPFamilies) > 1 {
		*s.Spec.IPFamilyPolicy = corev1.IPFamilyPolicyPreferDualStack
	}
	s.Spec.ClusterIPs = g.addresses(&g.clusterIP, s)
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	return s
}

// ports gives one of the kind's sets. A port that is alone needs no name, and
// one in four has none.
func (g *generator) ports(k *kind) []corev1.ServicePort {
	if len(k.ports) == 0 {
		return nil
	}
	out := slices.Clone(pick(g.draw, k.ports))
	if len(out) == 1 && g.chance(0.25) {
		out[0].Name = ""
	}
	return out
}

// tcp, udp and sctp give a port; the target is a number or a name.
func tcp(name string, port int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.Parse(target)}
}

func udp(name string, port int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolUDP, Port: port, TargetPort: intstr.Parse(target)}
}

func sctp(name string, port int32, target string) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolSCTP, Port: port, TargetPort: intstr.Parse(target)}
}

// targets are the numbers behind the names of target ports.
var targets = map[string]int32{"http": 8080, "https": 8443, "metrics": 9100, "amqp": 5672}

// targetOf gives the number that a slice has for a port.
func targetOf(p corev1.ServicePort) int32 {
	if p.TargetPort.Type == intstr.String {
		return targets[p.TargetPort.StrVal]
	}
	return p.TargetPort.IntVal
}

func uidOf(s string) types.UID { return types.UID(s) }
