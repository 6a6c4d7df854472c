package walk

import "slices"

// Skips says whether there are rules that WalkTo would pass over.
func (w *Walker) Skips() bool {
	return slices.ContainsFunc(w.chances, func(x *chances) bool { return x != nil })
}
