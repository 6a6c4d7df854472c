package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// documents are the names of what commands print as JSON. A name's number counts
// up when a field changes its meaning or goes; new fields may come at any time.
var documents = map[string]string{
	"diff":   "svcc.io/diff/v1",
	"doctor": "svcc.io/doctor/v1",
	"status": "svcc.io/status/v1",
}

// printDocument prints a command's JSON: an object whose first key, "schema", has
// its name, and then the fields of v.
func printDocument(w io.Writer, command string, v any) error {
	var fields, out bytes.Buffer
	e := json.NewEncoder(&fields)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	named := fmt.Appendf(nil, `{"schema":%q,%s`, documents[command], bytes.TrimPrefix(fields.Bytes(), []byte("{")))
	if err := json.Indent(&out, named, "", "  "); err != nil {
		return err
	}
	_, err := out.WriteTo(w)
	return err
}
