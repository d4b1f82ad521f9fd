package explore_test

import (
	"errors"
	"fmt"
	"testing"

	"notifyworker/integration/model/explore"
)

// jugs is the riddle of two jugs that hold 3 and 5 litres.
type jugs struct{ unwanted int }

func (jugs) Start() [][2]int { return [][2]int{{0, 0}} }

func (jugs) Next(s *[2]int, emit func(*[2]int, explore.Step)) {
	size := [2]int{3, 5}
	for from := range 2 {
		to := 1 - from
		full, empty, poured := *s, *s, *s
		full[from] = size[from]
		empty[from] = 0
		n := min(s[from], size[to]-s[to])
		poured[from] -= n
		poured[to] += n
		emit(&full, explore.Step(from))
		emit(&empty, explore.Step(from+2))
		emit(&poured, explore.Step(from+4))
	}
}

func (j jugs) Wrong(s *[2]int) string {
	if j.unwanted > 0 && s[1] == j.unwanted {
		return fmt.Sprintf("%d litres", s[1])
	}
	return ""
}

func (jugs) Tell(states [][2]int, steps []explore.Step) (words []string) {
	for i, step := range steps {
		words = append(words, fmt.Sprintf("%v step %d %v", states[i], step, states[i+1]))
	}
	return words
}

func TestRunFindsAShortestWay(t *testing.T) {
	r, err := explore.Run(jugs{unwanted: 4}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if r.Wrong != "4 litres" || len(r.Trace) != 6 || r.Depth != 6 {
		t.Errorf("got %+v", r)
	}
	if last := r.Trace[len(r.Trace)-1]; last != "[2 5] step 5 [3 4]" {
		t.Errorf("the way ends in %q", last)
	}
}

func TestRunSeesEveryStateOnce(t *testing.T) {
	r, err := explore.Run(jugs{}, 1000)
	if err != nil || r.States != 16 || r.Steps != 16*6 || r.Wrong != "" || len(r.Trace) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRunSaysThatTheBoundWasTooSmall(t *testing.T) {
	if r, err := explore.Run(jugs{}, 10); !errors.Is(err, explore.ErrBound) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// A table that grows many times must still know what it has seen.
type counter int

func (counter) Start() []int { return []int{0} }
func (c counter) Next(s *int, emit func(*int, explore.Step)) {
	for _, n := range []int{*s * 2, *s + 1, *s - 1} {
		if n >= 0 && n < int(c) {
			emit(&n, 0)
		}
	}
}
func (counter) Wrong(*int) string                   { return "" }
func (counter) Tell([]int, []explore.Step) []string { return nil }

func TestRunKeepsWhatItHasSeenAsItGrows(t *testing.T) {
	if r, err := explore.Run(counter(50_000), 1_000_000); err != nil || r.States != 50_000 {
		t.Errorf("got %+v, %v", r, err)
	}
}
