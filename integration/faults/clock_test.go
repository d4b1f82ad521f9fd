package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

const libfaketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

// elsewhen is a folder of server binaries that live at another time than we: seen from there, the worker's clock is wrong. What
// is written to its file "offset" counts from the next start on.
func elsewhen(t *testing.T) string {
	t.Helper()
	lib := libfaketime
	if found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1"); len(found) > 0 {
		lib = found[0]
	}
	if _, err := os.Stat(lib); err != nil {
		missing(t, "libfaketime", "faketime", err)
	}
	real, err := embedded.Find(t.Context(), embedded.Config{Choice: os.Getenv("NOTIFYWORKER_PG")})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "elsewhen-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD=%s FAKETIME=$(cat %s/offset) FAKETIME_DONT_FAKE_MONOTONIC=1 exec %s/postgres \"$@\"\n", lib, dir, real.Dir)
	for name, text := range map[string]string{"postgres": script, "initdb": fmt.Sprintf("#!/bin/sh\nexec %s/initdb \"$@\"\n", real.Dir)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The database's clock decides everything that is stored, so a worker whose own is an hour off does as any other.
func TestB48AWorkerAnHourAheadOrBehindDoesAsAnyOther(t *testing.T) {
	dir := elsewhen(t)
	set := func(offset string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "offset"), []byte(offset), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set("-1h")
	r := onServer(t, embedded.Config{Choice: dir})
	off := func() time.Duration {
		return time.Until(ask[time.Time](r, "SELECT clock_timestamp()")).Round(time.Minute)
	}
	if d := off(); d != -time.Hour {
		t.Fatalf("the server's clock is %v off", d)
	}
	clockwork(t, r)

	// The workers go on living while the database's time jumps by two hours.
	halt(r)
	set("+1h")
	if err := r.server.Relaunch(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.accepts()
	if d := off(); d != time.Hour {
		t.Fatalf("the server's clock is %v off", d)
	}
	r.settle(30 * time.Second) // whatever the end of the server has left undone belongs to the first half
	r.exec("TRUNCATE ledger.enqueued, ledger.recomputed, notifyworker.jobs, notifyworker.refreshes")
	clockwork(t, r)
}

func TestB48OddTimeZonesChangeNothing(t *testing.T) {
	for _, zone := range []string{"Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"} {
		t.Run(filepath.Base(zone), func(t *testing.T) {
			r := onDatabase(t)
			r.env = []string{"TZ=" + zone, "PGTZ=" + zone}
			clockwork(t, r)
		})
	}
}

// clockwork tries all that has to do with time: leases, delays, back-offs, durations, rescues.
func clockwork(t *testing.T, r *rig) {
	t.Helper()
	const lease = 6 * time.Second // a worker that is starved for two thirds of it would lose its jobs by right
	e := serve(t, func(c call) string {
		switch {
		case c.Type == "long":
			time.Sleep(2*lease + time.Second)
		case c.Attempt == 1:
			return "no JSON: a failed attempt"
		}
		return ""
	})
	args := []string{"--lease=" + lease.String(), "--handler=long=" + e.URL, "--handler=again=" + e.URL}
	r.worker(args...)
	p := r.worker(args...)
	load := r.clients(2, 6, 20*time.Millisecond)
	r.job("long", "{}")
	r.job("again", "{}")
	r.exec("SELECT notifyworker.enqueue_job('again', delay => interval '1500 ms')")
	r.until(20*time.Second, "the other jobs are done", "SELECT count(*) = 3 FROM notifyworker.jobs WHERE type IN ('long', 'again') AND status = 'COMPLETED'")
	load.stop()
	r.settle(30 * time.Second)
	v := r.judge(load)
	atMost(t, "the slowest id", v.Slowest, 5*time.Second)
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE type = 'long' AND attempts > 1"); n > 0 {
		blame(t, "a job was taken twice though its lease was extended")
	}
	if n := ask[int](r, "SELECT count(*)::int FROM notifyworker.jobs WHERE duration_ms < 0 OR started_at < created_at - interval '1 s' OR finished_at < started_at OR duration_ms > 60000"); n > 0 {
		t.Errorf("%d jobs have impossible times", n)
	}
	late := ask[float64](r, "SELECT max(extract(epoch FROM started_at - run_after))::float8 FROM notifyworker.jobs WHERE type = 'again'")
	atMost(t, "the latest start after a delay or back-off", time.Duration(late*float64(time.Second)), 500*time.Millisecond)
	if ask[bool](r, "SELECT EXISTS (SELECT FROM notifyworker.jobs WHERE started_at < run_after)") {
		t.Error("a job started before it was due")
	}
	if n := p.metric("notifyworker_jobs_missed_total"); n > 0 {
		t.Errorf("%v jobs were found only by the slow poll", n)
	}
}
