package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"svcc/ir/diag"
)

// newLog tells what is done, on standard error: lines for people, or JSON.
func newLog(w io.Writer, format string, quiet bool) (*slog.Logger, error) {
	level := slog.LevelInfo
	if quiet {
		level = slog.LevelError
	}
	switch format {
	case "text":
		return slog.New(&lines{w: w, level: level}), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", format)
}

// lines is a slog.Handler that writes as svcc says everything else:
// "svcc: warning: message (key value)".
type lines struct {
	mu    sync.Mutex
	w     io.Writer
	level slog.Level
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := "svcc: "
	if r.Level >= slog.LevelWarn {
		text += strings.ToLower(r.Level.String()) + ": "
	}
	text = strings.Replace(text, "warn:", "warning:", 1) + r.Message
	var attrs []string
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, fmt.Sprintf("%s %v", a.Key, a.Value))
		return true
	})
	if len(attrs) > 0 {
		text += " (" + strings.Join(attrs, ", ") + ")"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintln(l.w, diag.Plain(text))
	return err
}

// WithAttrs and WithGroup are not used by svcc.
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) WithGroup(string) slog.Handler { return l }
