package worker

import (
	"fmt"
	"testing"
	"time"
)

func TestExactlyOneWorkerGoesAtOnceAndTheOthersSoonAfter(t *testing.T) {
	var ids []string
	for n := range 7 {
		ids = append(ids, fmt.Sprintf("worker-%d", n))
	}
	firsts := map[string]int{}
	for key := range 700 {
		n := 0
		for _, id := range ids {
			w := &Worker{cfg: Config{ID: id}}
			w.turns.among(ids)
			switch d := w.Turn(fmt.Sprint(key)); {
			case d == 0:
				n++
				firsts[id]++
			case d < afterFirst || d > afterFirst+lookApart:
				t.Fatalf("%s waits %v for key %d", id, d, key)
			}
		}
		if n != 1 {
			t.Fatalf("%d workers go at once for key %d", n, key)
		}
	}
	for _, id := range ids {
		if firsts[id] < 50 || firsts[id] > 200 {
			t.Errorf("%s was first %d times of 700, want about 100", id, firsts[id])
		}
	}
}

func TestAWorkerThatKnowsOfNoOthersGoesAtOnce(t *testing.T) {
	for _, ids := range [][]string{nil, {}, {"me"}, {"a", "b"}} {
		w := &Worker{cfg: Config{ID: "me"}}
		if ids != nil {
			w.turns.among(ids)
		}
		for key := range 20 {
			if d := w.Turn(fmt.Sprint(key)); d != time.Duration(0) {
				t.Errorf("among %v it waits %v", ids, d)
			}
		}
	}
}
