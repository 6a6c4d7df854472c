package sums

import (
	"os"
	"path/filepath"
	"strings"
)

// Idle says that a module of the kernel could be loaded and is not. To ask the
// kernel for what such a module does loads it; without it there is nothing of that.
// What cannot be told is not idle: the module may be built in. root is where proc,
// sys and lib are.
func Idle(root, module string) bool {
	if _, err := os.Stat(filepath.Join(root, "sys/module", module)); err == nil {
		return false
	}
	release, err := os.ReadFile(filepath.Join(root, "proc/sys/kernel/osrelease"))
	if err != nil {
		return false
	}
	text, err := os.ReadFile(filepath.Join(root, "lib/modules", strings.TrimSpace(string(release)), "modules.dep"))
	return err == nil && strings.Contains(string(text), "/"+module+".ko")
}
