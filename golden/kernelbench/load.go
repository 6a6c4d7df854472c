package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// again says whether a text is loaded in this round as well: one that takes a
// second or more only twice, one that takes long but once.
func (l *layout) again(round int) bool {
	switch {
	case l.services == 0 || l.node == nil || l.load > 8*time.Second:
		return false
	case l.load > time.Second:
		return round < 2
	}
	return true
}

// timeLoad loads the text in the node, or in a namespace of the loading
// process alone, and keeps the least CPU time. If it takes longer than the
// limit the layout stays without a node.
func (l *layout) timeLoad(ctx context.Context, n *node, lock string, limit time.Duration) error {
	if l.services > 0 {
		progress("load %s", l)
	}
	in, err := os.Open(l.file)
	if err != nil {
		return err
	}
	defer in.Close()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(limited, "iptables-"+l.flavour+"-restore")
	cmd.Stdin = in
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+lock)
	err = runIn(n, cmd)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		progress("%s: not loaded after %s", l, limit)
		return nil
	}
	if err != nil {
		return err
	}
	took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if l.load == 0 || took < l.load {
		l.load = took
	}
	if n == nil {
		return nil
	}
	l.node = n
	return n.watch(ctx)
}

// runIn runs a command in a node's namespace, or in one of its own. It dies
// with this process.
func runIn(n *node, cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	run := func() error {
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(said.Bytes()))
		}
		return nil
	}
	if n != nil {
		return do(n.ns, run)
	}
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNET
	return onThread(run)
}

// What ends every packet. While it has rules they count which packets are on
// their way to a pod; for the measurement it has none.
const (
	watching = `table ip kernelbench {
	chain end {
		type filter hook postrouting priority 300; policy drop;
		ip daddr %s counter drop
		counter drop
	}
}
`
	unwatched = "flush chain ip kernelbench end\n"
)

func (n *node) nft(ctx context.Context, text string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "nft", args...)
	cmd.Stdin, cmd.Stdout = strings.NewReader(text), &out
	err := runIn(n, cmd)
	return out.String(), err
}

func (n *node) watch(ctx context.Context) error {
	_, err := n.nft(ctx, fmt.Sprintf(watching, podRange), "-f", "-")
	return err
}

func (n *node) unwatch(ctx context.Context) error {
	_, err := n.nft(ctx, unwatched, "-f", "-")
	return err
}

var counted = regexp.MustCompile(`counter packets (\d+)`)

// seen gives how many packets came to the end: to pods, and to others.
func (n *node) seen(ctx context.Context) (pods, others int, err error) {
	text, err := n.nft(ctx, "", "list", "chain", "ip", "kernelbench", "end")
	if err != nil {
		return 0, 0, err
	}
	found := counted.FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		return 0, 0, fmt.Errorf("nft lists %q", text)
	}
	if pods, err = strconv.Atoi(found[0][1]); err == nil {
		others, err = strconv.Atoi(found[1][1])
	}
	return pods, others, err
}
