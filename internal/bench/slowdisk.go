package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/queue"
)

const slowDiskAbout = `Commits a second of 64 clients that insert jobs one by one as fast as they can, on a disk whose syncs take 1.5 ms longer. The disk is emulated: the settings ` +
	`commit_delay = 1500 and commit_siblings = 0 of all sessions make whoever flushes the log sleep 1.5 ms before it, with the lock held that the others wait for, as they would wait for the disk; ` +
	`what commits meanwhile shares the flush. A plain trigger calls pg_notify at each insert, and its worker listens. ` +
	`Draining: one worker, a process, does these jobs, which do nothing. Slots full: it lives, but has no slot free. Ratios are taken round by round.`

const slowDiskClients = 64

func slowDiskContenders() []*contender {
	return []*contender{
		{name: "no triggers, no worker", kind: bare, tag: "_slow"},
		{name: "no triggers, draining by polling every 10ms", kind: bare, tag: "_slow", processes: 1, poll: 10 * time.Millisecond},
		{name: "plain NOTIFY trigger, draining", kind: plain, tag: "_slow", processes: 1},
		{name: "notify when idle, slots full", kind: advisory, tag: "_slow", processes: 1, hold: true},
		{name: "notify when idle, draining", kind: advisory, tag: "_slow", processes: 1},
	}
}

func slowDiskSteps(r *run) int { return r.cfg.Rounds * len(slowDiskContenders()) }

func measureSlowDisk(ctx context.Context, r *run, s *Section) error {
	s.About = slowDiskAbout
	fast := r.place.url
	defer func() { r.place.url = fast }()
	cs := slowDiskContenders()
	if err := r.prepare(ctx, cs); err != nil {
		return err
	}
	rates, done := make([][]float64, len(cs)), make([][]float64, len(cs))
	why, err := r.slowDown(ctx)
	if err != nil {
		return err
	}
	if r.place.server.Settings["fsync"] != "on" {
		s.Notes = append(s.Notes, "fsync is off: nothing waits for the disk, and none is slow")
	}
	if slowDiskClients+16 > r.place.spare {
		why = fmt.Sprintf("the server has only %d connections left", r.place.spare)
	}
	if why != "" {
		s.Notes = append(s.Notes, "not measured: "+why)
	}
	for n := range r.cfg.Rounds {
		for i, c := range cs {
			r.step("a slow disk, round %d: %s", n+1, c.name)
			if why != "" {
				continue
			}
			made, worked, err := r.insertTurn(ctx, c, slowDiskClients)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rates[i], done[i] = append(rates[i], made), append(done[i], worked)
		}
	}
	t := Table{Title: connections(slowDiskClients), Columns: []Column{{"enqueued/s", ""}, {"done/s", ""}, {"by no triggers, no worker", ""}, {"by no triggers, draining", ""}}}
	chart := Chart{Title: "Commits a second that enqueue, syncs of 1.5 ms, 64 connections", Unit: "jobs/s", Series: []Series{{Name: "enqueued/s"}}}
	for i, c := range cs {
		line := row(c.name, median(rates[i]), median(done[i]), medianRatio(rates[i], rates[0]), medianRatio(rates[i], rates[1]))
		line.Errors, _ = c.errors()
		t.Rows = append(t.Rows, line)
		chart.Labels = append(chart.Labels, c.name)
		chart.Series[0].Values = append(chart.Series[0].Values, Number(median(rates[i])))
	}
	s.Tables, s.Charts = append(s.Tables, t), append(s.Charts, chart)
	s.Notes = append(s.Notes, troublesOf(cs)...)
	s.atLeast("enqueue rate on a slow disk, worker live and its slots full, by no triggers", medianRatio(rates[3], rates[0]), 0.8, "×")
	s.atLeast("enqueue rate on a slow disk, worker draining, by no triggers and the same draining", medianRatio(rates[4], rates[1]), 0.8, "×")
	return nil
}

// slowDown makes all sessions from now on wait at each flush; why says why they can't.
func (r *run) slowDown(ctx context.Context) (why string, err error) {
	slow, err := withSettings(r.place.url, map[string]string{"commit_delay": "1500", "commit_siblings": "0"})
	if err != nil {
		return "", err
	}
	cfg, err := queue.ParseURL(slow)
	if err != nil {
		return "", fmt.Errorf("read the database's URL: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return fmt.Sprintf("this role can't set commit_delay, which takes a superuser: %v", err), nil
	}
	r.place.url = slow
	return "", conn.Close(ctx)
}

// withSettings adds settings of the session to a connection string of either form.
func withSettings(text string, settings map[string]string) (string, error) {
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		for name, value := range settings {
			text += fmt.Sprintf(" %s=%s", name, value)
		}
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the database's URL can't be read") // the error has it, with its password
	}
	q := u.Query()
	for name, value := range settings {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
