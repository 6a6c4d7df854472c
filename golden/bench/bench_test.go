package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/golden/cluster"
)

// The test binary is its own child, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTable(t *testing.T) {
	columns := []measured{
		{built: built{Stages: []stage{
			{"load", 100 * time.Millisecond, 150 * time.Millisecond},
			{"emit", 20 * time.Millisecond, 10 * time.Millisecond},
		}, Rules: 900, Bytes: 12345}, Services: 100, Wall: time.Second, CPU: 2 * time.Second, Peak: 50 << 20, Input: 3 << 20},
		{built: built{Stages: []stage{
			{"load", time.Second, time.Second},
			{"emit", time.Second, 2 * time.Second},
			{"emit", time.Second, 3 * time.Second},
		}}, Services: goalServices, Peak: 300 << 20},
	}
	want := []string{ // the words of each line; columns are aligned by tabwriter
		"services 100 10000",
		"wall s cpu s wall s cpu s",
		"load 0.100 0.150 1.000 1.000",
		"emit 0.020 0.010 2.000 5.000",
		"all but load 0.020 0.010 2.000 5.000",
		"process 1.000 2.000 0.000 0.000",
		"peak MB 50.0 300.0",
		"input MB 3.0 0.0",
		"rules 900 0",
		"bytes 12345 0",
		"",
		"10000 services: all but load took 5.00 s of CPU (goal: 2, missed), peak memory was 300.0 MB (goal: 600, met)",
		"",
	}
	var got strings.Builder
	if err := printTable(&got, columns); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(got.String() + "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant the words\n%s", got.String(), strings.Join(want, "\n"))
	}
}

// A child's peak memory is its own: it neither contains what this process has,
// nor misses what the child used.
func TestPeakIsTheChildsOwn(t *testing.T) {
	small, err := runChild(job{Generate: &cluster.Options{Services: 10}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	large, err := runChild(job{Generate: &cluster.Options{Services: 3000}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if small.Peak < 4<<20 || small.Peak > 64<<20 {
		t.Errorf("a child that makes ten Services has a peak of %s MB", megabytes(small.Peak))
	}
	if large.Peak < small.Peak+16<<20 {
		t.Errorf("3000 Services take %s MB, 10 take %s MB", megabytes(large.Peak), megabytes(small.Peak))
	}
	if large.CPU <= small.CPU || large.Wall <= 0 {
		t.Errorf("3000 Services take %v of CPU, 10 take %v", large.CPU, small.CPU)
	}
}

func TestChildFailureIsReported(t *testing.T) {
	if _, err := runChild(job{Dir: t.TempDir() + "/none"}); err == nil {
		t.Error("a build of a directory that does not exist went well")
	}
}

func TestBuildIsMeasured(t *testing.T) {
	m, err := measure(cluster.Options{Services: 50, DualStack: 0.5}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{loadStage, "resolve", "optimize", "emit", "proof"} {
		if wall, _ := m.stage(want); wall <= 0 {
			t.Errorf("stage %s took no time: %v", want, m.Stages)
		}
	}
	wall, _ := m.sum(func(stage) bool { return true })
	if wall > m.Wall {
		t.Errorf("the stages took %v, the whole process %v", wall, m.Wall)
	}
	if m.Rules < 50 || m.Bytes < 50*m.Rules || m.Input == 0 || m.Services != 50 {
		t.Errorf("%d services, %d bytes of input, %d rules, %d bytes", m.Services, m.Input, m.Rules, m.Bytes)
	}
}
