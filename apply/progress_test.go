package apply

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A step that takes long is told while it lasts; a short one is not.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	e := &Engine{Log: slog.New(slog.NewTextHandler(&out, nil))}
	synctest.Test(t, func(t *testing.T) {
		if err := e.step("quick", func() error { return nil }); err != nil || out.Len() > 0 {
			t.Errorf("%v, %q", err, out.String())
		}
		_ = e.step("slow", func() error {
			time.Sleep(patience + patience/4)
			return nil
		})
	})
	if got := out.String(); !strings.Contains(got, "slow ...") || !strings.Contains(got, "slow: done") {
		t.Errorf("%q", got)
	}
}
