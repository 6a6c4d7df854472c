package diag

// 1: reading.
const (
	ReadFailed    Code = "SVCC1001"
	NothingFound  Code = "SVCC1002"
	TooLarge      Code = "SVCC1003"
	BadEncoding   Code = "SVCC1004"
	BadYAML       Code = "SVCC1005"
	BadJSON       Code = "SVCC1006"
	AliasesGrow   Code = "SVCC1007"
	TooDeep       Code = "SVCC1008"
	KindMissing   Code = "SVCC1009"
	PassedOver    Code = "SVCC1010"
	DuplicateKey  Code = "SVCC1011"
	WrongType     Code = "SVCC1012"
	UnknownField  Code = "SVCC1013"
	DefinedTwice  Code = "SVCC1014"
	NameMissing   Code = "SVCC1015"
	VersionUnread Code = "SVCC1016"
	ReaderFault   Code = "SVCC1017"
	KindMisspelt  Code = "SVCC1018"
	NoService     Code = "SVCC1019"
	NoProxyConfig Code = "SVCC1020"
)

var reading = map[Code]Info{
	ReadFailed:    {Error, "unreadable input", "A file or directory named on the command line could not be read. Regular files are read wherever they are; a named pipe only if it is itself named; devices and sockets never.", false},
	NothingFound:  {Error, "no manifests found", "A directory holds no .yaml, .yml or .json file, nor does any directory below it; or a path, or standard input, holds nothing but comments. A wrong path, or a command in a pipe that failed, would otherwise compile to rules for no service at all. A List without items is a manifest: kubectl prints it where there is nothing.", false},
	TooLarge:      {Error, "input too large", "A file is larger than 512 MiB, or one YAML document or list item that must be held as a whole is larger than 32 MiB. Split it.", false},
	BadEncoding:   {Error, "not text", "Input must be UTF-8, or UTF-16 with a byte order mark, and YAML may not hold control characters such as NUL.", false},
	BadYAML:       {Error, "broken YAML", "A document is not YAML, so nothing is known of what it was meant to say, not even its kind. Templates of a chart have to be rendered first.", false},
	BadJSON:       {Error, "broken JSON", "A document that begins as JSON, or a file named .json, is not JSON, so nothing is known of what it was meant to say.", false},
	AliasesGrow:   {Error, "aliases grow too large", "YAML aliases (*name) repeat what their anchor (&name) holds. A document whose aliases would add more than 16 MiB is refused before it is expanded.", false},
	TooDeep:       {Error, "nested too deep", "A document nests mappings and lists more than 100 deep. No Kubernetes object does.", false},
	KindMissing:   {Error, "no apiVersion or kind", "A document names no apiVersion or no kind, or is not a mapping at all, so it cannot be told what it is. In a directory a document that has neither, such as a values file or a kustomization.yaml, is passed over with a warning instead (see SVCC1010); one that has only one of them stays an error, since it was meant to be an object.", false},
	PassedOver:    {Warning, "file passed over", "A document found in a directory has neither apiVersion nor kind (values files, kustomization.yaml), or is the Chart.yaml of a chart: it is no Kubernetes object and is passed over. Named itself on the command line, it would be an error (SVCC1009).", true},
	DuplicateKey:  {Error, "key given twice", "A mapping has one key twice. Which value counts depends on who reads it, so none does here.", false},
	WrongType:     {Error, "wrong type of value", "A field holds text where a number is expected, a list where a mapping is, and the like. The API server would refuse the object. In YAML a bare 80 is a number and a bare yes is true: text that looks so needs quotes.", false},
	UnknownField:  {Warning, "unknown field", "A field is not part of this kind of object and has no effect: usually a spelling error, a wrong level of indentation, or a field of another version.", true},
	DefinedTwice:  {Error, "object defined twice", "Two documents define an object of the same kind, namespace and name. In a cluster the later one applied would win; here there is no later. This is an error even if both say the same.", false},
	NameMissing:   {Error, "object without a name", "An object has no metadata.name. With generateName the API server would invent one at each apply; rules cannot be made for a name nobody knows.", false},
	VersionUnread: {Warning, "version not read", "An object is of a kind that bears on rules but of an API version that svcc does not read, such as discovery.k8s.io/v1beta1. It has no effect. Convert it to the version that the message names.", true},
	KindMisspelt:  {Warning, "kind or version that looks misspelt", "An object's kind and apiVersion are nearly those of an object that bears on rules (service, Services, core/v1), and none that is read. It has no effect.", true},
	NoService:     {Warning, "no service in the input", "The input could be read, and holds no Service, so that the rules serve none. A wrong path or a chart that was rendered without its values looks like this.", true},
	NoProxyConfig: {Error, "no KubeProxyConfiguration", "The file that --config names holds no KubeProxyConfiguration of kubeproxy.config.k8s.io/v1alpha1, alone or under config.conf in a ConfigMap, as kubeadm keeps it (kubectl -n kube-system get configmap kube-proxy -o yaml). Compiled without it, rules could have another mark or other masquerading than the node needs.", false},
	ReaderFault:   {Error, "fault in the reader", "A document made the YAML or JSON library fail in a way it should not. This is a fault of svcc, please report it; the document is not read.", false},
}
