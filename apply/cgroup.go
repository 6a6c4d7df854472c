package apply

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LeaveControlGroup moves this process into the control group of process 1, which
// nobody stops: systemd ends a unit, a session or a scope by ending whatever is in
// its control group, in a session of its own or not. Only the hierarchies by which
// systemd does so count: the unified one, and name=systemd (cgroups(7)).
func LeaveControlGroup() error {
	own, err := controlGroups("/proc/self/cgroup")
	if err != nil {
		return err
	}
	first, err := controlGroups("/proc/1/cgroup")
	if err != nil {
		return err
	}
	var failed error
	for kind, path := range first {
		if own[kind] != path {
			failed = errors.Join(failed, enter(kind, path))
		}
	}
	return failed
}

// Systemd says whether systemd runs the machine (sd_booted(3)).
func Systemd() bool {
	i, err := os.Lstat("/run/systemd/system")
	return err == nil && i.IsDir()
}

// controlGroups reads a file of /proc/PID/cgroup: paths by the file system's type.
func controlGroups(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0":
			out["cgroup2"] = fields[2]
		case fields[1] == "name=systemd":
			out["cgroup"] = fields[2]
		}
	}
	return out, nil
}

// enter moves this process.
func enter(kind, path string) error {
	mount, err := hierarchy(kind)
	if err != nil {
		return err
	}
	if strings.HasPrefix(path, "/..") {
		return fmt.Errorf("the control group of process 1 is out of this one's sight (%s)", path)
	}
	f, err := os.OpenFile(filepath.Join(mount, path, "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("0")
	return errors.Join(err, f.Close())
}

// hierarchy finds where one is mounted as a whole (proc_pid_mountinfo(5)).
func hierarchy(kind string) (string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		mount, super, _ := strings.Cut(s.Text(), " - ")
		fields, of := strings.Fields(mount), strings.Fields(super)
		if len(fields) < 5 || len(of) < 3 || fields[3] != "/" || of[0] != kind {
			continue
		}
		if kind == "cgroup2" || strings.Contains(of[2], "name=systemd") {
			return fields[4], nil
		}
	}
	return "", fmt.Errorf("no file system of type %s is mounted", kind)
}
