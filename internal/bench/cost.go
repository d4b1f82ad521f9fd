package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

const costAbout = `One worker, a process with its defaults. Statements are those that the worker sent by its own count, with begin and commit and its listener's; a ping asks whether an idle connection still lives. A job: statements for each, and its own processor time for each thousand, at 20 and 200 jobs a second and with ` +
	`16 clients that insert as fast as they can. Server: what PostgreSQL took meanwhile, for the clients and the worker, if it is the bench's own on Linux. ` +
	`Idle: what it does with nothing to do. Memory is the process's resident set; beside a load, the largest that it has had.`

// costLoads are jobs a second; 0 is as many as the clients can insert.
func costLoads(r *run) []float64 {
	if r.cfg.Short {
		return []float64{200, 0}
	}
	return []float64{20, 200, 0}
}

func costContenders(r *run) []*contender {
	cs := []*contender{
		{name: "notify when idle", kind: advisory, processes: 1},
		{name: "polling every second", kind: advisory, tag: "_poll1s", processes: 1, poll: time.Second},
		{name: "polling every 100ms", kind: advisory, tag: "_poll100ms", processes: 1, poll: 100 * time.Millisecond},
	}
	if r.cfg.Short {
		return cs[:2]
	}
	return cs
}

func costSteps(r *run) int { return len(costContenders(r)) * (1 + r.cfg.Rounds*len(costLoads(r))) }

// cost is one turn.
type cost struct {
	statements float64 // a job, or a second
	pings      float64 // a second, of an idle worker
	cpu        float64 // ms a thousand jobs, or a second
	server     float64 // PostgreSQL's, ms a thousand jobs
	rss        float64 // MiB
	rate       float64 // jobs done a second
}

func measureCost(ctx context.Context, r *run, s *Section) error {
	s.About = costAbout
	cs := costContenders(r)
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	idle, err := r.idleCost(ctx, cs)
	if err != nil {
		return err
	}
	t := Table{Title: "idle", Columns: []Column{{"statements/s", ""}, {"pings/s", ""}, {"processor", "ms/s"}, {"memory", "MiB"}}}
	for i, c := range cs {
		t.Rows = append(t.Rows, row(c.name, idle[i].statements, idle[i].pings, idle[i].cpu, idle[i].rss))
	}
	s.Tables = append(s.Tables, t)
	loads := costLoads(r)
	turns := make([][][]cost, len(loads)) // by load and contender
	for l := range loads {
		turns[l] = make([][]cost, len(cs))
	}
	for n := range r.cfg.Rounds {
		for l, rate := range loads {
			for i, c := range cs {
				r.step("cost of a job %s, round %d: %s", loadName(rate), n+1, c.name)
				one, err := r.costTurn(ctx, c, rate)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, loadName(rate), err)
				}
				turns[l][i] = append(turns[l][i], one)
			}
		}
	}
	peak := 0.0
	for l, rate := range loads {
		t := Table{Title: loadName(rate), Columns: []Column{{"statements a job", ""}, {"processor a 1,000 jobs", "ms"}, {"the server's", "ms"}, {"memory", "MiB"}, {"done/s", ""}}}
		for i, c := range cs {
			x := turns[l][i]
			memory := 0.0
			for _, one := range x {
				memory = max(memory, one.rss)
			}
			if i == 0 && rate == 0 {
				peak = memory
			}
			t.Rows = append(t.Rows, row(c.name, median(each(x, func(c cost) float64 { return c.statements })), median(each(x, func(c cost) float64 { return c.cpu })),
				median(each(x, func(c cost) float64 { return c.server })), memory, median(each(x, func(c cost) float64 { return c.rate }))))
		}
		s.Tables = append(s.Tables, t)
	}
	s.Notes = append(s.Notes, troublesOf(cs)...)
	s.atMost("statements of an idle worker", idle[0].statements, 0.5, "a second")
	s.atMost("processor time of an idle worker", idle[0].cpu, 5, "ms/s")
	s.atMost("memory of an idle worker", idle[0].rss, 40, "MiB")
	s.atMost("memory of a saturated worker", peak, 100, "MiB")
	return nil
}

func loadName(rate float64) string {
	if rate == 0 {
		return "at saturation"
	}
	return fmt.Sprintf("at %.0f jobs/s", rate)
}

// idleCost looks at one contender after the other, over several of their beats.
func (r *run) idleCost(ctx context.Context, cs []*contender) ([]cost, error) {
	d := time.Duration(r.amount(24_000, 8_000)) * time.Millisecond
	if r.tiny() {
		d = time.Second
	}
	out := make([]cost, len(cs))
	for i, c := range cs {
		r.step("cost of an idle worker, %v: %s", d, c.name)
		err := r.with(ctx, []*contender{c}, func(ctx context.Context) error {
			before, err := c.sentBefore(ctx)
			if err != nil {
				return err
			}
			cpuBefore, _, err := c.usage(ctx)
			if err != nil {
				return err
			}
			if err := pause(ctx, d); err != nil {
				return err
			}
			cpu, rss, err := c.usage(ctx) // before its metrics, which cost something
			if err != nil {
				return err
			}
			after, err := c.sent(ctx)
			out[i] = cost{statements: (after.statements - before.statements) / d.Seconds(), pings: (after.pings - before.pings) / d.Seconds(), cpu: (cpu - cpuBefore).Seconds() * 1e3 / d.Seconds(), rss: mib(rss)}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return out, nil
}

// costTurn lets one contender work and counts.
func (r *run) costTurn(ctx context.Context, c *contender, rate float64) (out cost, err error) {
	err = r.with(ctx, []*contender{c}, func(ctx context.Context) error {
		return r.place.withConn(ctx, func(conn *pgx.Conn) error {
			before, err := c.sentBefore(ctx)
			if err != nil {
				return err
			}
			cpuBefore, _, err := c.usage(ctx)
			if err != nil {
				return err
			}
			serverBefore := r.serverTook(ctx)
			var began time.Time // once all clients are connected
			if rate > 0 {
				var took time.Duration
				_, took, err = r.openLoop(ctx, c, rate, r.cfg.Slice)
				began = time.Now().Add(-took)
			} else {
				_, err = r.insertLoop(ctx, c, fullClients, max(r.cfg.Slice, 2*c.poll), func() error { began = time.Now(); return nil }) // who polls must have had a look
			}
			if err != nil {
				return err
			}
			ended, err := r.ended(ctx, conn, c.schema, 0)
			if err != nil {
				return err
			}
			seconds := time.Since(began).Seconds()
			if rate > 0 { // all of them, so that a poll is shared by those that it found
				if err := pause(ctx, c.poll+50*time.Millisecond); err != nil {
					return err
				}
				if ended, err = r.ended(ctx, conn, c.schema, 0); err != nil {
					return err
				}
			}
			cpu, rss, err := c.usage(ctx)
			if err != nil {
				return err
			}
			server := r.serverTook(ctx)
			after, err := c.sent(ctx)
			out = cost{
				statements: (after.statements - before.statements) / float64(ended), cpu: (cpu - cpuBefore).Seconds() * 1e6 / float64(ended),
				server: (server - serverBefore) * 1e6 / float64(ended), rss: mib(c.peak(rss)), rate: float64(ended) / seconds,
			}
			if rate == 0 { // most of it was for what was enqueued, of which there is more than what was done
				out.server = math.NaN()
			}
			if ended == 0 {
				out.statements, out.cpu, out.server = math.NaN(), math.NaN(), math.NaN()
			}
			c.starts.reset() // its processes don't tell
			return err
		})
	})
	return out, err
}

// ended is how many jobs have been concluded of those that came after one.
func (r *run) ended(ctx context.Context, conn *pgx.Conn, schema string, after int64) (n int, err error) {
	err = conn.QueryRow(ctx, "SELECT /* bench client */ count(*) FROM "+pgx.Identifier{schema, "jobs"}.Sanitize()+" WHERE finished_at IS NOT NULL AND id > $1", after).Scan(&n)
	return n, err
}

// newest is the id of the last job.
func (r *run) newest(ctx context.Context, conn *pgx.Conn, schema string) (id int64, err error) {
	err = conn.QueryRow(ctx, "SELECT /* bench client */ coalesce(max(id), 0) FROM "+pgx.Identifier{schema, "jobs"}.Sanitize()).Scan(&id)
	return id, err
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }
