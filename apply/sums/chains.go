package sums

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"svcc/ir"
)

// Chains lists the chains that a table has, without the built-in ones of
// iptables-legacy. A kernel without that flavour, or a namespace where nothing
// has used the table yet, has none.
func (Kernel) Chains(f ir.Family, table string, nft bool) ([]string, error) {
	if nft {
		return chainsNFT(f, table)
	}
	used, err := usedLegacy(f, table)
	if err != nil || !used {
		return nil, err
	}
	l, err := readLegacy(f, table)
	if err != nil {
		return nil, err
	}
	return l.chains()
}

// Used says whether this network namespace has a table. To ask for one of
// iptables-legacy itself, by a tool or by Read, makes it, and every packet passes it
// from then on; so do some versions of iptables-nft.
func (Kernel) Used(f ir.Family, table string, nft bool) (bool, error) {
	if nft {
		return usedNFT(f, table)
	}
	return usedLegacy(f, table)
}

func usedLegacy(f ir.Family, table string) (bool, error) {
	name := "ip_tables_names"
	if f == ir.IPv6 {
		name = "ip6_tables_names"
	}
	text, err := os.ReadFile("/proc/thread-self/net/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.Contains(strings.Fields(string(text)), table), err
}

// chains are where the kernel has a rule with the target ERROR, which names the
// chain that begins behind it; the last such ends the table.
func (l *legacyTable) chains() ([]string, error) {
	const nameHead, nameSize, named, namedSize = 2, 29, 32, 30
	var out []string
	for at := 0; at < len(l.rules); {
		rule := l.rules[at:]
		if len(rule) < l.size {
			return nil, errors.New("a rule that is cut off")
		}
		target := int(binary.NativeEndian.Uint16(rule[l.offsets:]))
		next := int(binary.NativeEndian.Uint16(rule[l.offsets+2:]))
		if next < l.size || next > len(rule) {
			return nil, errors.New("a rule without a length")
		}
		if target+named+namedSize <= next && cString(rule[target+nameHead:target+nameHead+nameSize]) == "ERROR" {
			out = append(out, cString(rule[target+named:target+named+namedSize]))
		}
		at += next
	}
	if n := len(out); n > 0 {
		out = out[:n-1]
	}
	return out, nil
}

// usedNFT takes a table without chains for none.
func usedNFT(f ir.Family, table string) (bool, error) {
	chains, err := chainsNFT(f, table)
	return len(chains) > 0, err
}

// chainsNFT dumps the chains of a family. Where nobody answers for nf_tables,
// there are none.
func chainsNFT(f ir.Family, table string) ([]string, error) {
	n, err := openNFT()
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer n.close()
	family := uint8(unix.AF_INET)
	if f == ir.IPv6 {
		family = unix.AF_INET6
	}
	var out []string
	err = n.ask(unix.NFT_MSG_GETCHAIN, family, "", "", func(m []byte) error {
		var in, name string
		err := eachAttribute(m, func(kind uint16, _, value []byte) error {
			switch kind {
			case chainTable:
				in = cString(value)
			case chainName:
				name = cString(value)
			}
			return nil
		})
		if in == table {
			out = append(out, name)
		}
		return err
	})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) { // nfnetlink knows no such part
		return nil, nil
	}
	return out, err
}
