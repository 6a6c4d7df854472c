package proof_test

import (
	"regexp"
	"strings"
)

// edit is what a fault does to a text. A regular expression that no line
// matches leaves the text as it is, which fails the test. {ns/name:port}
// stands for the hash in the names of that service port's chains.
type edit func(text string) string

// without leaves out the lines that match.
func without(re string) edit {
	return editLines(re, func(string) []string { return nil })
}

// change replaces old in the lines that match.
func change(re, old, new string) edit {
	return func(text string) string {
		old, new := expand(old, text), expand(new, text)
		return editLines(re, func(line string) []string { return []string{strings.Replace(line, old, new, 1)} })(text)
	}
}

// twice repeats the lines that match.
func twice(re string) edit {
	return editLines(re, func(line string) []string { return []string{line, line} })
}

// after adds a line behind those that match.
func after(re, add string) edit {
	return func(text string) string {
		return editLines(re, func(line string) []string { return []string{line, expand(add, text)} })(text)
	}
}

// move takes the line that matches to the place before or behind another.
func move(re, where string, behind bool) edit {
	return func(text string) string {
		moved := regexp.MustCompile(expand(re, text)).FindString(text)
		if moved == "" {
			return text
		}
		return editLines(where, func(line string) []string {
			if behind {
				return []string{line, moved}
			}
			return []string{moved, line}
		})(without(re)(text))
	}
}

// editLines gives each line that matches to f.
func editLines(re string, f func(line string) []string) edit {
	return func(text string) string {
		r := regexp.MustCompile(expand(re, text))
		var out []string
		for _, line := range strings.Split(text, "\n") {
			if r.MatchString(line) {
				out = append(out, f(line)...)
			} else {
				out = append(out, line)
			}
		}
		return strings.Join(out, "\n")
	}
}

var placeholder = regexp.MustCompile(`\{[a-z0-9-]+/[^}]*\}`)

// expand puts hashes in, from the rule that meets the service's cluster IP.
func expand(s, text string) string {
	return placeholder.ReplaceAllStringFunc(s, func(name string) string {
		name = strings.Trim(name, "{}")
		re := regexp.MustCompile(`-A KUBE-SERVICES .*"` + regexp.QuoteMeta(name) + ` cluster IP" .* -j KUBE-SV[CL]-(\w+)`)
		if m := re.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return "there-is-no-" + name
	})
}

// table leaves a whole table out.
func table(name string) edit {
	return func(text string) string {
		from := strings.Index(text, "*"+name+"\n")
		n := strings.Index(text[from:], "COMMIT\n") + len("COMMIT\n")
		return text[:from] + text[from+n:]
	}
}
