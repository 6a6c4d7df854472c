package manifest

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProxyConfig is kubeproxy.config.k8s.io/v1alpha1 KubeProxyConfiguration, as
// far as it bears on rules (KubeProxyConfiguration v1alpha1). The published Go type would
// bring a metrics and a tracing stack into a binary for nodes. Fields that svcc
// has no use for are of type any, so that they are known and not warned of.
type ProxyConfig struct {
	metav1.TypeMeta `json:",inline"`

	FeatureGates      map[string]bool      `json:"featureGates"`
	HostnameOverride  string               `json:"hostnameOverride"`
	BindAddress       string               `json:"bindAddress"`
	Mode              string               `json:"mode"`
	IPTables          ProxyConfigIPTables  `json:"iptables"`
	IPVS              ProxyConfigIPVS      `json:"ipvs"`
	NFTables          ProxyConfigNFTables  `json:"nftables"`
	DetectLocalMode   string               `json:"detectLocalMode"`
	DetectLocal       ProxyConfigDetect    `json:"detectLocal"`
	ClusterCIDR       string               `json:"clusterCIDR"`
	NodePortAddresses []string             `json:"nodePortAddresses"`
	Conntrack         ProxyConfigConntrack `json:"conntrack"`

	ClientConnection            any `json:"clientConnection"`
	Logging                     any `json:"logging"`
	HealthzBindAddress          any `json:"healthzBindAddress"`
	MetricsBindAddress          any `json:"metricsBindAddress"`
	BindAddressHardFail         any `json:"bindAddressHardFail"`
	EnableProfiling             any `json:"enableProfiling"`
	ShowHiddenMetricsForVersion any `json:"showHiddenMetricsForVersion"`
	Winkernel                   any `json:"winkernel"`
	OOMScoreAdj                 any `json:"oomScoreAdj"`
	ConfigSyncPeriod            any `json:"configSyncPeriod"`
	PortRange                   any `json:"portRange"`
	WindowsRunAsService         any `json:"windowsRunAsService"`
}

// ProxyConfigIPTables is the part for iptables mode.
type ProxyConfigIPTables struct {
	MasqueradeBit      *int32 `json:"masqueradeBit"`
	MasqueradeAll      bool   `json:"masqueradeAll"`
	LocalhostNodePorts *bool  `json:"localhostNodePorts"`
	SyncPeriod         any    `json:"syncPeriod"`
	MinSyncPeriod      any    `json:"minSyncPeriod"`
}

// ProxyConfigIPVS is the part for IPVS mode.
type ProxyConfigIPVS struct {
	Scheduler     string   `json:"scheduler"`
	ExcludeCIDRs  []string `json:"excludeCIDRs"`
	StrictARP     bool     `json:"strictARP"`
	TCPTimeout    string   `json:"tcpTimeout"`
	TCPFinTimeout string   `json:"tcpFinTimeout"`
	UDPTimeout    string   `json:"udpTimeout"`
	SyncPeriod    any      `json:"syncPeriod"`
	MinSyncPeriod any      `json:"minSyncPeriod"`
}

// ProxyConfigNFTables is the part for nftables mode.
type ProxyConfigNFTables struct {
	MasqueradeBit *int32 `json:"masqueradeBit"`
	MasqueradeAll bool   `json:"masqueradeAll"`
	SyncPeriod    any    `json:"syncPeriod"`
	MinSyncPeriod any    `json:"minSyncPeriod"`
}

// ProxyConfigDetect names what detectLocalMode looks for.
type ProxyConfigDetect struct {
	BridgeInterface     string `json:"bridgeInterface"`
	InterfaceNamePrefix string `json:"interfaceNamePrefix"`
}

// ProxyConfigConntrack is the part for connection tracking.
type ProxyConfigConntrack struct {
	TCPBeLiberal bool `json:"tcpBeLiberal"`

	MaxPerCore            any `json:"maxPerCore"`
	Min                   any `json:"min"`
	TCPEstablishedTimeout any `json:"tcpEstablishedTimeout"`
	TCPCloseWaitTimeout   any `json:"tcpCloseWaitTimeout"`
	UDPTimeout            any `json:"udpTimeout"`
	UDPStreamTimeout      any `json:"udpStreamTimeout"`
}
