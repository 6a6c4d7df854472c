// Package manifest reads Kubernetes manifests from files, directories and
// standard input into typed objects, each with its place.
//
// Load works in four steps. Paths become sources (paths.go, source.go): whole
// files as UTF-8 text. A source is cut into documents, and a long List into its
// items, by looking at the text alone (split.go, list.go); a cut is only taken
// where the pieces mean what the whole means, and if a piece turns out broken
// the whole is read instead. The pieces are decoded side by side (decode.go):
// YAML by sigs.k8s.io/yaml, which is how the API machinery understands YAML,
// then JSON into the types of k8s.io/api, which finds wrong types, unknown
// fields and duplicate keys in one pass (faults.go). At last the results are put
// together in the order of the input (merge.go).
//
// An object in which only some values are of a wrong type is read without them
// (repair.go), so that the rest of it is checked as well; it is marked as Broken.
// Merges of YAML are written out where the library takes them for keys given twice
// (unmerge.go).
//
// Documents of kinds that have no bearing on rules are parsed, since broken
// text could be anything, but not decoded.
//
// A field's place is looked up only when somebody asks (document.go, tree.go):
// an object keeps where in its source it stands, and its text is parsed once
// more then. Columns count bytes of the text as UTF-8, without a byte order mark.
//
// Input is hostile: every size, depth and expansion has a limit (limits.go), and
// a panic of a library becomes a diagnostic.
//
// When reviewing a change here, look for: text that is dropped without a
// word, memory that grows with anything but the input's size, a place that is
// off by a line in the second document of a file, and YAML that is understood
// otherwise than sigs.k8s.io/yaml does.
package manifest
