package lab

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Need skips a test if any of these says what the machine lacks for it, and
// fails it where CI is set, so that no test can vanish there unseen.
func Need(t testing.TB, lacks ...error) {
	t.Helper()
	err := errors.Join(lacks...)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Root is an error unless the test runs as root.
func Root() error {
	if os.Geteuid() != 0 {
		return errors.New("not root")
	}
	return nil
}

// packages are the Debian packages of programs that are not called as these are.
var packages = map[string]string{
	"ip": "iproute2", "nft": "nftables", "modprobe": "kmod", "sysctl": "procps", "linux.uml": "user-mode-linux",
}

// packageOf is the Debian package that has a program.
func packageOf(program string) string {
	if strings.HasPrefix(program, "iptables") || strings.HasPrefix(program, "ip6tables") {
		return "iptables"
	}
	return cmp.Or(packages[program], program)
}

// Tools is an error if one of these programs is not there, with the package that
// has it.
func Tools(names ...string) error {
	var errs []error
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("no %s: it is in the Debian package %s", name, packageOf(name)))
		}
	}
	return errors.Join(errs...)
}

// All says whether tests that try a sample of many cases of one kind are to try
// all of them: where SVCC_ALL is set, as make kill sets it.
func All() bool { return os.Getenv("SVCC_ALL") != "" }
