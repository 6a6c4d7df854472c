package eval

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func (s Share) rat() *big.Rat {
	if s.num == 0 {
		return new(big.Rat)
	}
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(s.num), new(big.Int).SetUint64(s.den))
}

// fits says whether a fraction in lowest terms is within 64 bits.
func fits(r *big.Rat) bool { return r.Num().IsUint64() && r.Denom().IsUint64() }

// shares generates fractions of small and of huge numbers, from 0 to 1.
func shares() *rapid.Generator[Share] {
	return rapid.Custom(func(t *rapid.T) Share {
		den := rapid.OneOf(rapid.Uint64Range(1, 20), rapid.Uint64Range(1, math.MaxUint64)).Draw(t, "den")
		return Of(rapid.Uint64Range(0, den).Draw(t, "num"), den)
	})
}

// same holds a result to the exact one: equal, in lowest terms, or ErrInexact
// exactly where 64 bits do not hold it.
func same(t *rapid.T, op string, got Share, err error, want *big.Rat) {
	if err != nil {
		if !errors.Is(err, ErrInexact) {
			t.Errorf("%s: error %v", op, err)
		}
		if fits(want) && op == "mul" {
			t.Errorf("%s: %s fits, but %v", op, want, err)
		}
		return
	}
	if got.rat().Cmp(want) != 0 {
		t.Errorf("%s: %s, want %s", op, got, want)
	}
	if got.num != 0 && got.den != want.Denom().Uint64() {
		t.Errorf("%s: %s is not in lowest terms", op, got)
	}
}

func TestShareArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := shares().Draw(t, "a"), shares().Draw(t, "b")
		product, err := a.Mul(b)
		same(t, "mul", product, err, new(big.Rat).Mul(a.rat(), b.rat()))
		sum, err := a.Add(b)
		same(t, "add", sum, err, new(big.Rat).Add(a.rat(), b.rat()))
		same(t, "rest", a.Rest(), nil, new(big.Rat).Sub(big.NewRat(1, 1), a.rat()))
		f, _ := a.rat().Float64()
		if math.Abs(a.Float()-f) > 1e-15 {
			t.Errorf("float of %s: %v, want %v", a, a.Float(), f)
		}
	})
}

// Small fractions, as rules have them, are always exact.
func TestSmallSharesAreExact(t *testing.T) {
	small := rapid.Uint64Range(1, 1<<15)
	rapid.Check(t, func(t *rapid.T) {
		a, b := OneIn(small.Draw(t, "a")), OneIn(small.Draw(t, "b"))
		if _, err := a.Add(b); err != nil {
			t.Error(err)
		}
		if _, err := a.Mul(b); err != nil {
			t.Error(err)
		}
	})
}

// The line of probabilities that a balance of n becomes gives each 1/n.
func TestChainOfChances(t *testing.T) {
	for _, n := range []uint64{1, 2, 5, 400, 1000} {
		left := Whole
		for i := uint64(0); i < n; i++ {
			got, err := left.Mul(OneIn(n - i))
			if err != nil || got != OneIn(n) {
				t.Fatalf("endpoint %d of %d: %s, %v", i, n, got, err)
			}
			if left, err = left.Mul(OneIn(n - i).Rest()); err != nil {
				t.Fatal(err)
			}
		}
		if !left.IsZero() {
			t.Errorf("%s of %d is left over", left, n)
		}
	}
}

func TestShareTexts(t *testing.T) {
	for want, s := range map[string]Share{"0": {}, "1": Whole, "1/3": OneIn(3), "2/3": OneIn(3).Rest(), "1/2": Of(21, 42)} {
		if s.String() != want {
			t.Errorf("%s, want %s", s, want)
		}
	}
	if OneIn(1) != Whole || Of(0, 7) != (Share{}) || !Whole.Rest().IsZero() || (Share{}).Rest() != Whole {
		t.Error("equal shares are not equal values")
	}
}

// A sum that 64 bits do not hold is an error, also where only its numerator
// outgrows them.
func TestAddOverflows(t *testing.T) {
	most := Of(math.MaxUint64-1, math.MaxUint64)
	if s, err := most.Add(most); !errors.Is(err, ErrInexact) {
		t.Errorf("%s, %v", s, err)
	}
}
