package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"svcc/ir"
)

// Sysctl is a setting and the value that something needs.
type Sysctl struct {
	Name  string `json:"name"` // as below /proc/sys: "net/ipv4/conf/all/route_localnet"
	Value string `json:"value"`
	Why   string `json:"why"` // for people
	// Stays says that others come to rely on it: it is not put back when svcc
	// needs it no more.
	Stays bool `json:"-"`
}

// Saved is a setting's value before it was changed.
type Saved struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Needed are the settings that the Programs' rules cannot do without, sorted by
// name. route_localnet is needed where a node port answers at a loopback
// address; the rules themselves then drop what comes to 127.0.0.0/8 from
// outside. Virtual servers need more; see virtual.
func Needed(root string, programs []*ir.Program) []Sysctl {
	all := map[string]Sysctl{}
	for _, p := range programs {
		if p.Options.LocalhostNodePorts && hasNodePort(p) {
			all[RouteLocalnet] = localnet
		}
		if p.Options.Virtual != nil {
			for _, s := range virtual(root, p.Options.Virtual) {
				all[s.Name] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Sysctl) int { return strings.Compare(a.Name, b.Name) })
}

func hasNodePort(p *ir.Program) bool {
	return slices.ContainsFunc(p.Services, func(s *ir.ServicePort) bool {
		return slices.ContainsFunc(s.Frontends, func(f ir.Frontend) bool { return f.Kind == ir.NodePort })
	})
}

// Get reads a setting; the error is fs.ErrNotExist where the kernel has none
// such. Spaces around the value are taken off.
func Get(root, name string) (string, error) {
	text, err := os.ReadFile(path(root, name))
	return strings.TrimSpace(string(text)), err
}

// Set writes those settings that have another value, and returns what they had,
// in the order in which they were set. After an error the earlier ones stay
// set, and are returned.
func Set(root string, want []Sysctl) (was []Saved, err error) {
	for _, s := range want {
		old, err := Get(root, s.Name)
		if err != nil {
			return was, fmt.Errorf("sysctl %s: %w", s.Name, err)
		}
		if old == s.Value {
			continue
		}
		if err := put(root, s.Name, s.Value); err != nil {
			return was, err
		}
		was = append(was, Saved{s.Name, old})
	}
	return was, nil
}

// Restore puts settings back, the last one first. One that is gone from the
// kernel is no error.
func Restore(root string, was []Saved) error {
	var errs []error
	for _, s := range slices.Backward(was) {
		if err := put(root, s.Name, s.Value); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// put writes without creating: below /proc/sys nothing can be created.
func put(root, name, value string) error {
	f, err := os.OpenFile(path(root, name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("sysctl %s: %w", name, err)
	}
	_, err = f.WriteString(value + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("sysctl %s=%s: %w", name, value, err)
	}
	return nil
}

func path(root, name string) string {
	return filepath.Join(root, "proc/sys", filepath.FromSlash(name))
}
