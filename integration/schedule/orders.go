package schedule

import (
	"fmt"
	"iter"
	"strings"
)

// Order says whose step comes next, by the session's place: "0110" is first 0, then 1 twice, then 0.
type Order []int

// String writes the order as Parse reads it.
func (o Order) String() string {
	var b strings.Builder
	for _, s := range o {
		fmt.Fprintf(&b, "%d", s)
	}
	return b.String()
}

// Parse reads what String wrote: one digit a step.
func Parse(s string) (Order, error) {
	var o Order
	for _, r := range s {
		if r < '0' || r > '9' {
			return nil, fmt.Errorf("order %q: a digit a step is needed, %q is none", s, r)
		}
		o = append(o, int(r-'0'))
	}
	return o, nil
}

// Orders yields every order of sessions with so many steps each, which keeps the order within each session. The slice
// yielded is the caller's.
func Orders(steps ...int) iter.Seq[Order] {
	return func(yield func(Order) bool) {
		left := append([]int(nil), steps...)
		total := 0
		for _, n := range steps {
			total += n
		}
		var extend func(o Order) bool
		extend = func(o Order) bool {
			if len(o) == total {
				return yield(append(Order(nil), o...))
			}
			for s := range left {
				if left[s] == 0 {
					continue
				}
				left[s]--
				ok := extend(append(o, s))
				left[s]++
				if !ok {
					return false
				}
			}
			return true
		}
		extend(make(Order, 0, total))
	}
}

// Count is how many orders there are.
func Count(steps ...int) int {
	n, total := 1, 0
	for _, k := range steps {
		for i := 1; i <= k; i++ {
			total++
			n = n * total / i
		}
	}
	return n
}
