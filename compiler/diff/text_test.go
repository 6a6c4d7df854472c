package diff

import (
	"strings"
	"testing"
)

func TestHowManyMore(t *testing.T) {
	for n, want := range map[int]string{manyLines: "", manyLines + 1: "  and 1 more flow\n", manyLines + 2: "  and 2 more flows\n"} {
		var b strings.Builder
		if more(&b, n, "flow"); b.String() != want {
			t.Errorf("%d: %q, want %q", n, b.String(), want)
		}
	}
}
