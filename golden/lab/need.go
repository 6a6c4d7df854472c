package lab

import (
	"errors"
	"os"
	"os/exec"
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

// Tools is an error if one of these programs is not there.
func Tools(names ...string) error {
	var errs []error
	for _, name := range names {
		_, err := exec.LookPath(name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// All says whether tests that try a sample of many cases of one kind are to try
// all of them: where SVCC_ALL is set, as make kill sets it.
func All() bool { return os.Getenv("SVCC_ALL") != "" }
