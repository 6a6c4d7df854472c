package addr

import "testing"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in, want  string
		canonical bool
	}{
		{"10.0.0.1", "10.0.0.1", true},
		{"172.030.010.010", "172.30.10.10", false},
		{"::ffff:10.0.0.1", "10.0.0.1", false},
		{"fd00::1", "fd00::1", true},
		{"FD00:0::1", "fd00::1", false},
		{" 10.0.0.1", "", false},
		{"10.0.0.1 ", "", false},
		{"fe80::1%eth0", "", false},
		{"10.0.0", "", false},
		{"", "", false},
	} {
		a, canonical, err := Parse(c.in)
		if c.want == "" {
			if err == nil {
				t.Errorf("Parse(%q) = %v, want an error", c.in, a)
			}
			continue
		}
		if err != nil || a.String() != c.want || canonical != c.canonical {
			t.Errorf("Parse(%q) = %v, %v, %v; want %v, %v", c.in, a, canonical, err, c.want, c.canonical)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for _, c := range []struct {
		in, want  string
		canonical bool
	}{
		{"10.0.0.0/8", "10.0.0.0/8", true},
		{" 10.0.0.0/8", "10.0.0.0/8", false},
		{"10.0.0.5/8", "10.0.0.0/8", false},
		{"010.0.0.0/8", "10.0.0.0/8", false},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8", false},
		{"fd00::/64", "fd00::/64", true},
		{"0.0.0.0/0", "0.0.0.0/0", true},
		{"10.0.0.0", "", false},
		{"10.0.0.0/33", "", false},
		{"::ffff:10.0.0.0/8", "", false},
		{"x/y", "", false},
	} {
		p, canonical, err := ParsePrefix(c.in)
		if c.want == "" {
			if err == nil {
				t.Errorf("ParsePrefix(%q) = %v, want an error", c.in, p)
			}
			continue
		}
		if err != nil || p.String() != c.want || canonical != c.canonical {
			t.Errorf("ParsePrefix(%q) = %v, %v, %v; want %v, %v", c.in, p, canonical, err, c.want, c.canonical)
		}
	}
}
