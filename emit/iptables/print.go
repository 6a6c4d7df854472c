package iptables

import "svcc/emit/iptables/rule"

// table is one table of a restore input.
type table struct {
	name   string
	brief  bool        // chains are declared without counters, which nobody reads
	chains []string    // user chains, in the order of declaration
	rules  []rule.Rule // in the order of writing
}

// appendTable prints a table as iptables-restore reads it. A comment that is
// not plain text is an error: names are validated long before, so it is a
// fault of svcc.
func appendTable(b []byte, t *table) ([]byte, error) {
	b = append(append(append(b, '*'), t.name...), '\n')
	end := " - [0:0]\n"
	if t.brief {
		end = " -\n"
	}
	for _, c := range t.chains {
		b = append(append(append(b, ':'), c...), end...)
	}
	for i := range t.rules {
		var err error
		if b, err = rule.Append(b, &t.rules[i]); err != nil {
			return nil, err
		}
	}
	return append(b, "COMMIT\n"...), nil
}
