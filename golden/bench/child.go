package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"svcc/golden/cluster"
)

// childArg, as the first argument, makes this program do one job and report.
const childArg = "-child"

// job is what a child is told, in JSON.
type job struct {
	Generate *cluster.Options // make this cluster in Dir; nil: build it
	Dir      string
	Level    int // -O of a build
}

// built is what a building child reports, in JSON.
type built struct {
	Stages []stage
	Rules  int // lines that append a rule
	Bytes  int // of the whole ruleset file
}

// stage is one stage's share of a build.
type stage struct {
	Name      string
	Wall, CPU time.Duration
}

// measured is one build as its parent sees it.
type measured struct {
	built
	Services  int
	Wall, CPU time.Duration // of the process, from its start to its end
	Peak      int64         // bytes of memory that were resident at once, at most
	Input     int64         // bytes of manifests
}

// measure generates a cluster and builds it as often as rounds says.
func measure(o cluster.Options, level, rounds int) (best measured, err error) {
	dir, err := os.MkdirTemp("", "svcc-bench-")
	if err != nil {
		return best, err
	}
	defer os.RemoveAll(dir)
	if _, err := runChild(job{Generate: &o, Dir: dir}); err != nil {
		return best, err
	}
	for i := range max(rounds, 1) {
		m, err := runChild(job{Dir: dir, Level: level})
		if err != nil {
			return best, err
		}
		if i == 0 || m.CPU < best.CPU {
			best = m
		}
	}
	best.Services = o.Services
	best.Input, err = sizeOf(dir)
	return best, err
}

func sizeOf(dir string) (total int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		total += info.Size()
	}
	return total, nil
}

// runChild runs this program anew for one job.
func runChild(j job) (m measured, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	arg, err := json.Marshal(j)
	if err != nil {
		return m, err
	}
	var stdout bytes.Buffer
	cmd := exec.Command(self, childArg, string(arg))
	cmd.Stdout, cmd.Stderr = &stdout, os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return m, err
	}
	m.Wall = time.Since(start)
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return m, errors.New("this system does not tell what a process used")
	}
	m.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	m.Peak = int64(usage.Maxrss) * 1024 // Linux counts in KiB
	return m, json.Unmarshal(stdout.Bytes(), &m.built)
}

// child does its job and reports on out.
func child(args []string, out io.Writer) error {
	if len(args) != 1 {
		return fmt.Errorf("%s wants one job", childArg)
	}
	var j job
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	var report built
	var err error
	if j.Generate != nil {
		err = cluster.Generate(*j.Generate).WriteYAML(j.Dir)
	} else {
		report, err = build(j.Dir, j.Level)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(report)
}
