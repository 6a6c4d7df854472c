package diag

// 1: reading.
const (
	ReadFailed Code = "SVCC1001"
)

var reading = map[Code]Info{
	ReadFailed: {Error, "unreadable input", "A file or directory named on the command line could not be read.", false},
}
