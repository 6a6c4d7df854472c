package manifest

import "strings"

// near is the type that is read and that t is probably meant to be, where t is none:
// its kind differs in case, a letter or two, or a plural, and so may its version.
func (u unit) near(t typeMeta) (typeMeta, bool) {
	if t.api == "" || t.kind == "" || t.isList() {
		return typeMeta{}, false
	}
	for k, row := range kinds {
		if row.onRequest && !u.opts.Endpoints || k == t {
			continue
		}
		if nearKind(t.kind, k.kind) && nearAPI(t.api, k.api) && !otherKinds[t] {
			return k, true
		}
	}
	return typeMeta{}, false
}

// otherKinds are those that exist beside the ones that are read and look like them.
var otherKinds = map[typeMeta]bool{{"v1", "Endpoints"}: true}

func nearKind(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	most := 1
	if len(b) > 6 {
		most = 2
	}
	return distance(a, b) <= most
}

// nearAPI takes a misspelt version or group for another, but not one group for
// another: serving.knative.dev has a kind Service too.
func nearAPI(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	group, version, grouped := strings.Cut(b, "/")
	if !grouped {
		return a == b || a == "core" || a == "core/"+b || a == "/"+b || a == "1"
	}
	short, _, _ := strings.Cut(group, ".")
	return distance(a, b) <= 2 || a == group || a == short+"/"+version
}

// distance is how many letters differ: put in, left out, changed or swapped with the
// next (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
