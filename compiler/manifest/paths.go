package manifest

import (
	"io/fs"
	"os"
	"path/filepath"

	"svcc/ir/diag"
)

// input is one file to read.
type input struct {
	name  string // "-" for standard input
	named bool   // on the command line, rather than found in a directory
	path  string // the one on the command line
}

// identity tells files apart, whatever their names: by the inode or, on a system
// that tells of none, by the path without symbolic links.
type identity struct {
	dev, ino uint64
	path     string
}

// finder turns the command line's paths into files. A file or directory that is
// reached twice, by a second name or by a loop of symbolic links, counts once.
// That also serves a mounted ConfigMap, whose files can be reached by two ways.
type finder struct {
	inputs []input
	files  map[identity]bool
	dirs   map[identity]int // how many manifests lie in and below it
	stdin  bool
	path   string // the one that is looked at
	diags  diag.List
}

func findInputs(paths []string) ([]input, diag.List) {
	f := &finder{files: map[identity]bool{}, dirs: map[identity]int{}}
	for _, f.path = range paths {
		f.find(f.path)
	}
	return f.inputs, f.diags
}

func (f *finder) find(path string) {
	if path == "-" {
		if !f.stdin {
			f.inputs = append(f.inputs, input{path, true, path})
		}
		f.stdin = true
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.failed(path, err)
	case info.IsDir():
		if f.directory(path, info) == 0 {
			f.diags.Add(diag.NothingFound, diag.Pos{File: path}, "", "no manifests found in directory %q", path).
				Hint = "name a directory that holds .yaml, .yml or .json files"
		}
	default:
		f.file(path, info, true)
	}
}

// directory gives how many manifests lie in and below path.
func (f *finder) directory(path string, info fs.FileInfo) int {
	key := identify(path, info)
	if n, met := f.dirs[key]; met {
		return n
	}
	f.dirs[key] = 0 // while inside: what a loop finds is counted where it is
	entries, err := os.ReadDir(path)
	if err != nil {
		f.failed(path, err)
		return 1
	}
	n := 0
	for _, e := range entries {
		n += f.entry(filepath.Join(path, e.Name()))
	}
	f.dirs[key] = n
	return n
}

func (f *finder) entry(path string) int {
	ours := isManifest(path)
	info, err := os.Stat(path)
	switch {
	case err != nil && !ours:
		return 0 // a dangling link of no interest
	case err != nil:
		f.failed(path, err)
	case info.IsDir():
		return f.directory(path, info)
	case !ours:
		return 0
	default:
		f.file(path, info, false)
	}
	return 1
}

// file takes regular files, and named pipes (process substitution) if they are
// named: one that merely lies in a directory would block for ever.
func (f *finder) file(path string, info fs.FileInfo, named bool) {
	switch pipe := info.Mode()&fs.ModeNamedPipe != 0; {
	case pipe && !named:
		f.diags.Add(diag.ReadFailed, diag.Pos{File: path}, "", "cannot read %q: it is a named pipe", path).
			Hint = "name the pipe itself to have it read"
	case !pipe && !info.Mode().IsRegular():
		f.diags.Add(diag.ReadFailed, diag.Pos{File: path}, "", "cannot read %q: it is no regular file", path)
	default:
		f.once(input{path, named, f.path}, info)
	}
}

func (f *finder) once(in input, info fs.FileInfo) {
	key := identify(in.name, info)
	if f.files[key] {
		return
	}
	f.files[key] = true
	f.inputs = append(f.inputs, in)
}

func identify(path string, info fs.FileInfo) identity {
	if dev, ino, ok := inode(info); ok {
		return identity{dev: dev, ino: ino}
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return identity{path: path}
}

func (f *finder) failed(path string, err error) {
	f.diags.Add(diag.ReadFailed, diag.Pos{File: path}, "", "cannot read %q: %v", path, reason(err))
}

func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
