package sums

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"

	"golang.org/x/sys/unix"

	"svcc/ir"
)

// Attributes of messages, of linux/netfilter/nf_tables.h.
const (
	genID = 1

	chainTable = 1
	chainName  = 3
	chainHook  = 4
	chainType  = 7

	ruleTable    = 1
	ruleChain    = 2
	ruleHandle   = 3
	ruleExprs    = 4
	rulePosition = 6
	rulePad      = 8
	exprName     = 1
)

// generation tells which transaction of the namespace was the last.
func generation() (uint32, error) {
	n, err := openNFT()
	if err != nil {
		return 0, err
	}
	defer n.close()
	return n.generation()
}

func (n *nftSocket) generation() (uint32, error) {
	var out uint32
	err := n.ask(unix.NFT_MSG_GETGEN, unix.AF_UNSPEC, "", "", func(m []byte) error {
		return eachAttribute(m, func(kind uint16, _, value []byte) error {
			if kind == genID && len(value) == 4 {
				out = binary.BigEndian.Uint32(value)
			}
			return nil
		})
	})
	if err == nil && out == 0 {
		err = errors.New("the kernel tells no generation of its rules")
	}
	return out, err
}

// readNFT dumps the chains of a family, then the rules of each of the table's.
func readNFT(f ir.Family, table string) (Table, error) {
	n, err := openNFT()
	if err != nil {
		return Table{}, err
	}
	defer n.close()
	r := &nftReader{table: table, names: map[string]bool{}, all: sha256.New(), one: sha256.New()}
	if r.out.Generation, err = n.generation(); err != nil {
		return Table{}, err
	}
	family := uint8(unix.AF_INET)
	if f == ir.IPv6 {
		family = unix.AF_INET6
	}
	if err := n.ask(unix.NFT_MSG_GETCHAIN, family, "", "", r.addChain); err != nil {
		return Table{}, err
	}
	// Chain by chain: a dump of a whole table begins each message by counting
	// from the first rule to where the last one ended.
	for i := range r.out.Chains {
		if err := n.ask(unix.NFT_MSG_GETRULE, family, table, r.out.Chains[i].Name, r.addRule); err != nil {
			return Table{}, err
		}
		r.one.Sum(r.out.Chains[i].Sum[:0])
		r.one.Reset()
		r.out.Chains[i].Rules, r.rules = r.rules, 0
	}
	now, err := n.generation()
	if err == nil && now != r.out.Generation {
		err = ErrChanged
	}
	return r.finish(), err
}

// nftReader sums up a table's rules as they come.
type nftReader struct {
	table    string
	out      Table
	names    map[string]bool
	all, one hash.Hash
	rules    int // of the chain under way
}

func (r *nftReader) addChain(m []byte) error {
	var c Chain
	var table string
	err := eachAttribute(m, func(kind uint16, whole, value []byte) error {
		switch kind {
		case chainTable:
			table = cString(value)
		case chainName:
			c.Name = cString(value)
		case chainHook:
			c.Base = true
		}
		return nil
	})
	if err != nil || table != r.table {
		return err
	}
	if r.names[c.Name] {
		return ErrChanged
	}
	r.names[c.Name] = true
	r.out.Chains = append(r.out.Chains, c)
	field(r.all, []byte(c.Name))
	return eachAttribute(m, func(kind uint16, whole, _ []byte) error {
		if kind == chainHook || kind == chainType {
			field(r.all, whole)
		}
		return nil
	})
}

// addRule takes in a rule of the chain that was asked for.
func (r *nftReader) addRule(m []byte) error {
	r.rules++
	field(r.one, []byte("rule")) // where it begins
	return eachAttribute(m, func(kind uint16, whole, value []byte) error {
		switch kind {
		case ruleTable, ruleChain, ruleHandle, rulePosition, rulePad:
			return nil
		case ruleExprs:
			return eachAttribute(value, r.addExpression)
		}
		field(r.one, whole)
		return nil
	})
}

// finish gives the table its sum.
func (r *nftReader) finish() Table {
	for i := range r.out.Chains {
		field(r.all, r.out.Chains[i].Sum[:])
	}
	r.all.Sum(r.out.All[:0])
	return r.out
}

// addExpression takes in a part of a rule; of a counter only that it is one.
func (r *nftReader) addExpression(_ uint16, whole, value []byte) error {
	name := ""
	err := eachAttribute(value, func(kind uint16, _, value []byte) error {
		if kind == exprName {
			name = cString(value)
		}
		return nil
	})
	if name == "counter" {
		whole = []byte(name)
	}
	field(r.one, whole)
	return err
}
