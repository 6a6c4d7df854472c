package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"svcc/compiler"
	"svcc/emit"
)

// writeRuleset writes a result where -o says. Files appear whole or not at all.
func writeRuleset(r *compiler.Result, bare bool, to string, stdout io.Writer) error {
	rs, err := r.Ruleset(bare)
	if err != nil {
		return exit{exitRefused, err}
	}
	switch {
	case to == "-":
		_, err = stdout.Write(rs.Marshal())
	case strings.HasSuffix(to, "/") || isDir(to):
		err = writeDir(rs, to)
	default:
		err = writeFile(to, rs.Marshal())
	}
	if err != nil {
		return exit{exitUsage, fmt.Errorf("cannot write: %w", err)}
	}
	return nil
}

func isDir(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.IsDir()
}

// nativeFiles are all names that a folder's sections can have: those that this
// build does not write are left-overs of an earlier one.
var nativeFiles = []string{"iptables.rules", "ip6tables.rules", "nftables.nft", "ipset.rules", "addresses.ip", "ipvs.rules"}

func writeDir(rs *emit.Ruleset, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	written := map[string]bool{}
	for _, s := range rs.Sections {
		written[s.FileName()] = true
		if err := writeFile(filepath.Join(dir, s.FileName()), s.Text); err != nil {
			return err
		}
	}
	for _, name := range nativeFiles {
		if written[name] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return writeFile(filepath.Join(dir, "svcc.rules"), rs.Marshal())
}

// writeFile replaces a regular file in one step; what is no regular file (a
// pipe, /dev/stdout) is written to as it is.
func writeFile(path string, text []byte) error {
	if i, err := os.Stat(path); err == nil && !i.Mode().IsRegular() {
		return os.WriteFile(path, text, 0o644)
	}
	return renameio.WriteFile(path, text, 0o644)
}
