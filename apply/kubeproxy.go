package apply

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// KubeProxy gives the number of a kube-proxy process that programs the network
// namespace of the calling thread; 0 for none. On a machine that runs nodes in
// containers, each has its own. One that cannot be looked at counts. root is
// where proc is.
func KubeProxy(root string) int {
	proc := filepath.Join(root, "proc")
	own, _ := os.Readlink(filepath.Join(proc, "thread-self/ns/net"))
	names, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(text)) != "kube-proxy" {
			continue
		}
		dir := filepath.Dir(name)
		if ns, err := os.Readlink(filepath.Join(dir, "ns/net")); err == nil && own != "" && ns != own {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			return pid
		}
	}
	return 0
}
