package sums

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

	"svcc/ir"
)

// Sum stands for rules.
type Sum [sha256.Size]byte

// Table is one table at one moment.
type Table struct {
	// All is of everything in it: chains, their order, their rules.
	All Sum
	// Chains are those of iptables-nft, in the kernel's order; nil for
	// iptables-legacy, whose rules say of each other where they stand.
	Chains []Chain
	// Generation is of the namespace's rules, iptables-nft's: it changes with
	// each transaction. 0 for iptables-legacy.
	Generation uint32
}

// Chain is a chain of iptables-nft.
type Chain struct {
	Name  string
	Base  bool // a built-in one
	Sum   Sum  // of its rules, in their order
	Rules int  // how many they are
}

// Policy is what iptables-legacy does with what reaches the end of a built-in
// chain, and how much did.
type Policy struct {
	Chain, Verdict string // "INPUT", "ACCEPT"
	Packets, Bytes uint64
}

// ErrChanged is a table that changed while it was read.
var ErrChanged = errors.New("the rules changed while they were read")

// Kernel reads in the calling thread's network namespace; that needs
// CAP_NET_ADMIN there.
type Kernel struct{}

// Read reads a table of iptables-nft or of iptables-legacy.
func (k Kernel) Read(f ir.Family, table string, nft bool) (Table, error) {
	if nft {
		return readNFT(f, table)
	}
	l, err := readLegacy(f, table)
	if err != nil {
		return Table{}, err
	}
	all, err := l.sum()
	return Table{All: all}, err
}

// Changed says whether a table may have changed since it was read: for
// iptables-nft by the generation, which no transaction escapes; for
// iptables-legacy by its sum, which would not tell of a change that was taken
// back within that time.
func (k Kernel) Changed(f ir.Family, table string, nft bool, since Table) (bool, error) {
	if nft {
		now, err := generation()
		return now != since.Generation, err
	}
	now, err := k.Read(f, table, nft)
	return now.All != since.All, err
}

// Policies reads the policies of iptables-legacy's built-in chains.
func (Kernel) Policies(f ir.Family, table string) ([]Policy, error) {
	l, err := readLegacy(f, table)
	if err != nil {
		return nil, err
	}
	return l.policies()
}

// cString is a text up to its first zero.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// checked refuses a length that the kernel cannot mean.
func checked(n uint32, what string) (int, error) {
	if n > math.MaxInt32/2 {
		return 0, fmt.Errorf("%s of %d bytes", what, n)
	}
	return int(n), nil
}
