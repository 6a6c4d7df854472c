package golden

import (
	"fmt"
	"testing"

	"svcc/compiler"
)

// TestLevels judges every trace line at the faster levels, by the text's walk.
func TestLevels(t *testing.T) {
	t.Run("O1", func(t *testing.T) {
		eachCase(t, func(o *compiler.Options) { o.Level = 1 }, func(t *testing.T, c *Case, r built) {
			views(t, c, view{secIPTablesO1, rulesText(r)})
			judgeAll(t, c, r)
		})
	})
	t.Run("O2", func(t *testing.T) {
		eachCase(t, func(o *compiler.Options) { o.Level = 2 }, judgeAll)
	})
}

// TestKernelLevels has each trace line judged by real packets at the faster
// levels.
func TestKernelLevels(t *testing.T) {
	for _, level := range []int{1, 2} {
		t.Run(fmt.Sprintf("O%d", level), func(t *testing.T) { inKernel(t, level) })
	}
}
