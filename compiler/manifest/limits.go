package manifest

// What the reader puts up with. Variables only so that tests can lower them.
var (
	maxFile     int64 = 512 << 20 // bytes of one file, pipe or standard input
	maxDocument       = 32 << 20  // bytes of YAML held as one tree, which takes some 100 times as much
	maxAliases        = 16 << 20  // bytes that aliases may add to one document
)

const (
	maxDepth  = 100 // mappings and lists within each other
	maxFaults = 20  // wrong types told of one object
)
