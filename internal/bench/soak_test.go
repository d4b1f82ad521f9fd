package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestTheJournalTellsWhoIsNamedFromWhatWentWrong(t *testing.T) {
	wrong := &troubles{}
	j := newJournal(wrong)
	log := `{"level":"info","message":"started","pid":1}
{"level":"info","url":"postgres://u@h/d","message":"on"}
{"level":"info","url":"http://127.0.0.1:4711","message":"serving"}
{"level":"warn","pid":77,"application":"report","transactions":5,"message":"a session keeps vacuum"}
{"level":"warn","pid":78,"message":"something else"}
panic: no
`
	for _, part := range []string{log[:30], log[30:100], log[100:]} {
		if n, err := j.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	for range 2 {
		if u, err := j.url(t.Context()); u != "http://127.0.0.1:4711" || err != nil {
			t.Errorf("serves at %q, %v", u, err)
		}
	}
	if !j.names(77) || j.names(78) || j.names(1) {
		t.Errorf("named: %v", j.named)
	}
	if n, first := wrong.count(); n != 2 || !strings.Contains(first, "something else") {
		t.Errorf("%d troubles, the first %q", n, first)
	}
}

func TestQuantilesOfAHistogramLieWithinTheirBucket(t *testing.T) {
	h := histogram{bounds: []float64{0.001, 0.002, 0.004}, below: []float64{0, 50, 100}, n: 100}
	for q, want := range map[float64]float64{0.25: 1.5, 0.5: 2, 0.75: 3, 1: 4} {
		if got := h.quantile(q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v ms, want %v", q, got, want)
		}
	}
	beyond := histogram{bounds: h.bounds, below: []float64{0, 0, 1}, n: 100}
	if got := beyond.quantile(0.99); got != 4 {
		t.Errorf("beyond the last bound: %v", got)
	}
	if !math.IsNaN((histogram{}).quantile(0.5)) || !math.IsNaN(h.since(h).quantile(0.5)) {
		t.Error("nothing has a median")
	}
	if twice := (histogram{}).plus(h).plus(h); twice.n != 200 || twice.quantile(0.5) != h.quantile(0.5) || h.below[1] != 50 {
		t.Errorf("twice: %+v of %+v", twice, h)
	}
	if back := h.plus(beyond).since(beyond); back.n != 100 || back.below[2] != 100 {
		t.Errorf("less what was before: %+v", back)
	}
}

func TestFifthsAreOfTheTimeAskedFor(t *testing.T) {
	e := &endurance{}
	for i := range 12 {
		e.samples = append(e.samples, stretch{at: time.Duration(i+1) * time.Second, seconds: 1, pinned: i >= 2, took: make([]time.Duration, i), memory: float64(20 - i), dead: float64(i)})
	}
	if first := e.fifth(true, 0); first.seconds != 2 || len(first.took) != 2+3 || first.memory != 18 || first.dead != 3 || first.rate() != 2.5 {
		t.Errorf("the first fifth: %+v", first)
	}
	if last := e.fifth(true, 4); last.seconds != 2 || len(last.took) != 10+11 || last.at != 12*time.Second {
		t.Errorf("the last fifth: %+v", last)
	}
	if two := e.fifth(false, 4); two.seconds != 1 || len(two.took) != 1 {
		t.Errorf("the last of two: %+v", two)
	}
	if none := (&endurance{}).fifth(true, 4); none.seconds != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

func TestSettingsFitBothFormsOfAConnectionString(t *testing.T) {
	for _, text := range []string{"postgres://u:p%20w@h:5432/d?sslmode=disable", "host=h user=u password='p w' dbname=d sslmode=disable"} {
		got, err := withSettings(text, map[string]string{"commit_delay": "1500", "commit_siblings": "0"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := pgx.ParseConfig(got)
		if err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if c.RuntimeParams["commit_delay"] != "1500" || c.RuntimeParams["commit_siblings"] != "0" || c.Password != "p w" || c.Host != "h" || c.Database != "d" {
			t.Errorf("%s has become %s", text, got)
		}
	}
	if _, err := withSettings("postgres://u:secret@h:port/d", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL that is none: %v", err)
	}
}
