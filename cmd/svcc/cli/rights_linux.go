package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/state"
)

// needsRoot says what is missing where something was refused to a process that may
// not change rules.
func needsRoot(err error) error {
	if err == nil || netAdmin() || !denied(err) {
		return err
	}
	return fmt.Errorf("this needs root (CAP_NET_ADMIN): %w", err)
}

// denied says that something was refused for want of rights, to svcc or to a tool,
// which tells in words: by the kernel, or because the state is another user's.
func denied(err error) bool {
	var tool *apply.ToolError
	var untrusted *state.UntrustedError
	if errors.As(err, &untrusted) {
		return os.Geteuid() != 0
	}
	if errors.As(err, &tool) {
		said := strings.ToLower(tool.Stderr)
		return strings.Contains(said, "permission denied") || strings.Contains(said, "operation not permitted") || strings.Contains(said, "must be root")
	}
	return errors.Is(err, fs.ErrPermission)
}

// netAdmin says whether this process has CAP_NET_ADMIN (capabilities(7)).
func netAdmin() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&head, &sets[0]); err != nil {
		return true // not known: the error speaks for itself
	}
	return sets[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}
