//go:build !unix

package manifest

import "io/fs"

func inode(fs.FileInfo) (dev, ino uint64, ok bool) { return 0, 0, false }
