package queue_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"notifyworker/internal/queue"
)

func TestSearchesForEndedLeasesGoBackAsFarAsIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e queue.Ended
		search := func(took time.Duration, none bool, err error) (within time.Duration) {
			s := e.Search()
			if s.Within != nil {
				within = time.Duration(*s.Within * float64(time.Millisecond))
			}
			time.Sleep(took)
			s.Done(took, none, err)
			return within
		}
		want := func(why string, got, want time.Duration) {
			t.Helper()
			if got != want {
				t.Errorf("%s: it goes back %s, want %s", why, got, want)
			}
		}
		const margin = queue.LeaseSeenAfter
		for range 3 {
			want("quick ones are for all", search(50*time.Millisecond, true, nil), 0)
			time.Sleep(time.Second)
		}
		want("the first slow one", search(2*time.Second, true, nil), 0)
		want("after a slow one", search(time.Second, true, nil), margin+2*time.Second)
		want("the next, since the last began", search(time.Millisecond, false, nil), margin+time.Second)
		time.Sleep(10 * time.Second)
		want("the last one left some", search(time.Millisecond, true, errors.New("gone")), margin+11*time.Second+time.Millisecond)
		want("the last one failed", search(time.Millisecond, true, nil), margin+11*time.Second+2*time.Millisecond)
		time.Sleep(27 * time.Second) // with the others, 20 times 2 s
		want("in time one of all", search(time.Millisecond, false, nil), margin+27*time.Second+time.Millisecond)
		time.Sleep(2 * time.Second)
		want("in time one of all", search(time.Millisecond, true, nil), 0)
		want("and as that was quick, all of them", search(time.Millisecond, true, nil), 0)
	})
}

func TestAFirstSearchThatCannotBeEndedIsNotMadeAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e queue.Ended
		s := e.Search()
		time.Sleep(10 * time.Second)
		s.Done(10*time.Second, false, errors.New("timeout"))
		if s = e.Search(); s.Within == nil || *s.Within != float64((queue.LeaseSeenAfter+10*time.Second).Milliseconds()) {
			t.Errorf("the next one is of %v ms, want those since the first", s.Within)
		}
		s.Done(0, true, nil)
		time.Sleep(200 * time.Second)
		if s = e.Search(); s.Within != nil {
			t.Errorf("then it is of %v ms, want all", *s.Within)
		}
	})
}

func TestASearchOfAllThatLeftSomeIsMadeAgain(t *testing.T) {
	var e queue.Ended
	e.Search().Done(time.Minute, false, nil)
	if s := e.Search(); s.Within != nil {
		t.Errorf("it goes back %v ms, want all: nobody has seen what there is", *s.Within)
	}
}
