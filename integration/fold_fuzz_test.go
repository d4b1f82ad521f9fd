package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5"
)

// ids that are easily taken for one another.
var trickyIDs = []string{
	`1`, `"1"`, `1.0`, `1e0`, `"1.0"`, `10`, `"10"`, `1e1`, `9007199254740993`, `9007199254740992`, `"9007199254740993"`, `1e400`, `-0`, `0`,
	`"a"`, `"A"`, `"a "`, `" a"`, `""`, `"é"`, `"e\u0301"`, `"\\"`, `"\""`, `"[]"`, `"null"`, `0.1`, `0.10`, `1e-30`, `"💶"`, `"\t"`,
}

// sameID is what makes two ids one: a number's value, a string's text.
func sameID(id string) string {
	if strings.HasPrefix(id, `"`) {
		var s string
		if err := json.Unmarshal([]byte(id), &s); err != nil {
			panic(fmt.Sprintf("id %s: %v", id, err))
		}
		return "text " + s
	}
	r, ok := new(big.Rat).SetString(id)
	if !ok {
		panic("no number: " + id)
	}
	return "number " + r.String()
}

// model is the obvious way: lists, in order of arrival.
type model struct {
	waits bool // a job waits, with ids of its own
	own   []string
	adds  []string // ids that have joined it, or wait on their own
}

func (m *model) enqueue(ids []string) {
	if m.waits {
		m.adds = append(m.adds, ids...)
	} else {
		m.waits, m.own = true, ids
	}
}

func (m *model) mark(ids []string) { m.adds = append(m.adds, ids...) }

func (m *model) take() []string {
	all := once(append(slices.Clone(m.own), m.adds...))
	*m = model{}
	return all
}

// once keeps the first of equal ids.
func once(ids []string) []string {
	seen := map[string]bool{}
	out := []string{}
	for _, id := range ids {
		if k := sameID(id); !seen[k] {
			seen[k] = true
			out = append(out, k)
		}
	}
	return out
}

// folder plays a fuzzed script against the database and the model.
type folder struct {
	t  *testing.T
	c  *pgx.Conn
	st *queue.Store
	m  model

	anyOrder bool // of the next comparison
}

func (f *folder) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.c.Exec(context.Background(), sql, args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func (f *folder) enqueue(ids []string, marked bool) {
	iso := readCommitted
	if marked {
		iso = repeatableRead
	}
	f.exec("BEGIN ISOLATION LEVEL " + iso)
	f.exec(`SELECT notifyworker.enqueue_price_refresh('c', $1::text::jsonb)`, "["+strings.Join(ids, ", ")+"]")
	f.exec("COMMIT")
	if marked {
		f.m.mark(ids)
	} else {
		f.m.enqueue(ids)
	}
}

// take reserves all, in as many jobs as the bound makes of it, and compares with the model. The last job may be refused: then
// its ids wait again.
func (f *folder) take(bound int, refuse bool) {
	f.t.Helper()
	var got []string
	for jobs := 0; ; jobs++ {
		if jobs == 1000 { // three times as many as the longest script has ids
			f.t.Fatalf("%d jobs, and no end; they had %q", jobs, got)
		}
		f.exec(allIsDue)
		r, err := f.st.Reserve(context.Background(), 1)
		if err != nil || r.Poisoned != nil {
			f.t.Fatal(err, r.Poisoned)
		}
		if len(r.Jobs) == 0 {
			break
		}
		j := r.Jobs[0]
		var c queue.PriceRefreshConfig
		if err := json.Unmarshal(j.Config, &c); err != nil {
			f.t.Fatal(err)
		}
		if len(c.ProductIDs) > bound {
			f.t.Fatalf("a job has %d ids, at most %d were asked for", len(c.ProductIDs), bound)
		}
		for _, id := range c.ProductIDs {
			got = append(got, string(id))
		}
		if refuse && len(got) < 40 {
			refuse = false
			f.refuse(j, &got, c)
			continue
		}
		if err := complete(context.Background(), f.st, r.Jobs); err != nil {
			f.t.Fatal(err)
		}
	}
	want := f.m.take()
	g := once(got)
	if f.anyOrder {
		slices.Sort(g)
		slices.Sort(want)
		f.anyOrder = false
	}
	if !slices.Equal(g, want) {
		f.t.Fatalf("got  %q\nwant %q", g, want)
	}
}

// refuse gives a job back: its ids are behind those that wait by now, or wait alone.
func (f *folder) refuse(j queue.Job, got *[]string, c queue.PriceRefreshConfig) {
	f.t.Helper()
	out, err := f.st.Requeue(context.Background(), queue.Return{ID: j.ID, Token: j.Token, Cause: queue.CauseRefused})
	if err != nil {
		f.t.Fatal(err)
	}
	*got = (*got)[:len(*got)-len(c.ProductIDs)]
	if out.Verdict != queue.Merged {
		return // alone again: nothing has changed
	}
	// A bounded job left others: its own ids are behind theirs now, and which of equal ids is the first depends on how the
	// additions were cut.
	f.anyOrder = true
}

// The ids that a reservation takes are those that an obvious model takes, in its order, whatever was enqueued, marked,
// requeued and bounded.
func FuzzFoldAgreesWithTheModel(f *testing.F) {
	f.Add([]byte{0, 1, 2, 200, 1, 0, 200, 14, 15, 250})
	f.Add([]byte{0, 201, 1, 201, 2, 200, 3, 240, 0, 200, 251})
	f.Add([]byte{3, 5, 7, 200, 3, 11, 200, 240, 8, 9, 10, 200, 201, 251, 12, 13, 200, 250})
	f.Add([]byte{200, 200, 201, 250, 252, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 200, 10, 11, 12, 201, 250})
	f.Add([]byte{252, 14, 15, 16, 17, 18, 19, 200, 14, 201, 20, 21, 200, 251, 14, 200, 250})
	db := pgtest.DB(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 300 {
			t.Skip("long scripts find nothing that short ones don't")
		}
		(&folder{t: t, c: db.Conn(t)}).play(script)
	})
}

// The fuzzer sees nothing of what goes on in SQL, so scripts drawn by lot serve as well.
func TestFoldAgreesWithTheModelOnScriptsDrawnByLot(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("the seed is %d", seed)
	r := rand.New(rand.NewPCG(seed, 40))
	c := pgtest.DB(t).Conn(t)
	for n := range 150 {
		script := make([]byte, r.IntN(60))
		for i := range script {
			script[i] = byte(r.IntN(len(trickyIDs)))
			if r.IntN(3) == 0 {
				script[i] = []byte{200, 200, 200, 201, 201, 240, 250, 251, 252}[r.IntN(9)]
			}
		}
		t.Run(fmt.Sprintf("%d %v", n, script), func(t *testing.T) { (&folder{t: t, c: c}).play(script) })
	}
}

// play reads a script: bytes from 200 on are calls, others are ids of the next enqueue.
func (f *folder) play(script []byte) {
	f.exec(`DELETE FROM notifyworker.job_additions; DELETE FROM notifyworker.jobs`)
	bound := 0
	set := func(n int) {
		bound = n
		var err error
		if f.st, err = queue.New(queue.Config{DB: f.c, WorkerID: workerID, MaxIDs: n}); err != nil {
			f.t.Fatal(err)
		}
	}
	set(50_000)
	ids := []string{}
	for _, b := range script {
		switch {
		case b == 252:
			set(3)
		case b == 251:
			f.take(bound, true)
		case b == 250:
			f.take(bound, false)
		case b == 240:
			f.exec(`SELECT notifyworker.sweep()`)
		case b == 201:
			f.enqueue(ids, true)
			ids = []string{}
		case b >= 200:
			f.enqueue(ids, false)
			ids = []string{}
		default:
			ids = append(ids, trickyIDs[int(b)%len(trickyIDs)])
		}
	}
	f.take(bound, false)
	if n := f.rest(); n != 0 {
		f.t.Fatalf("%d rows wait at the end", n)
	}
}

func (f *folder) rest() (n int) {
	f.t.Helper()
	if err := f.c.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM notifyworker.job_additions)
		+ (SELECT count(*) FROM notifyworker.jobs WHERE status IN ('PENDING', 'RUNNING'))`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
