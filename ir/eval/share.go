package eval

import (
	"errors"
	"fmt"
	"math/bits"
)

// Share is an exact fraction from 0 to 1 in lowest terms; the zero value is 0.
type Share struct{ num, den uint64 }

// Whole is 1.
var Whole = Share{1, 1}

// ErrInexact says that a fraction has outgrown 64 bits.
var ErrInexact = errors.New("a share cannot be expressed exactly in 64 bits")

// OneIn is 1/n; n must not be 0.
func OneIn(n uint64) Share { return Share{1, n} }

// Of is num/den in lowest terms; den must not be 0.
func Of(num, den uint64) Share {
	if num == 0 {
		return Share{}
	}
	g := gcd(num, den)
	return Share{num / g, den / g}
}

// IsZero says that the share is 0.
func (s Share) IsZero() bool { return s.num == 0 }

// Float is the share as a floating-point number.
func (s Share) Float() float64 {
	if s.num == 0 {
		return 0
	}
	return float64(s.num) / float64(s.den)
}

// Mul is s*t, or ErrInexact.
func (s Share) Mul(t Share) (Share, error) {
	if s.num == 0 || t.num == 0 {
		return Share{}, nil
	}
	g, h := gcd(s.num, t.den), gcd(t.num, s.den)
	hiN, n := bits.Mul64(s.num/g, t.num/h)
	hiD, d := bits.Mul64(s.den/h, t.den/g)
	if hiN != 0 || hiD != 0 {
		return Share{}, ErrInexact
	}
	return Share{n, d}, nil
}

// Over is s/t, or ErrInexact; t must not be 0.
func (s Share) Over(t Share) (Share, error) { return s.Mul(Share{t.den, t.num}) }

// Rest is 1-s.
func (s Share) Rest() Share {
	if s.num == 0 {
		return Whole
	}
	return Of(s.den-s.num, s.den)
}

// Add is s+t, or ErrInexact.
func (s Share) Add(t Share) (Share, error) {
	if s.num == 0 {
		return t, nil
	}
	if t.num == 0 {
		return s, nil
	}
	g := gcd(s.den, t.den)
	hiA, a := bits.Mul64(s.num, t.den/g)
	hiB, b := bits.Mul64(t.num, s.den/g)
	hiD, d := bits.Mul64(s.den, t.den/g)
	n, carry := bits.Add64(a, b, 0)
	if hiA|hiB|hiD|carry != 0 {
		return Share{}, ErrInexact
	}
	return Of(n, d), nil
}

// String gives "1/3", "1" or "0".
func (s Share) String() string {
	switch {
	case s.num == 0:
		return "0"
	case s.den == 1:
		return fmt.Sprint(s.num)
	}
	return fmt.Sprintf("%d/%d", s.num, s.den)
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
