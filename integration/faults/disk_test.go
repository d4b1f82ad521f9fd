package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"notifyworker/internal/embedded"
)

// A commit that fails again and again, in the same words as on a full disk. It stands for the full disk where the test may not
// mount a small file system.
func TestCommitsThatFailAreTriedAgainUntilTheySucceed(t *testing.T) {
	r := onDatabase(t)
	r.exec("CREATE TABLE ledger.disk (is_full boolean NOT NULL); INSERT INTO ledger.disk VALUES (false)")
	r.exec(`CREATE FUNCTION ledger.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF (SELECT is_full FROM ledger.disk) THEN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END IF;
		RETURN NULL; END $$`)
	for _, table := range []string{"jobs", "refreshes"} {
		r.exec(`CREATE CONSTRAINT TRIGGER fails AFTER UPDATE ON notifyworker.` + table + ` DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ledger.fail()`)
	}
	p := r.worker("--lease=2s")
	load := r.clients(3, 6, 20*time.Millisecond)
	time.Sleep(time.Second)
	r.exec("UPDATE ledger.disk SET is_full = true")
	r.enqueue("c", "during")
	p.notReady(15*time.Second, "database_failing")
	time.Sleep(long(3 * time.Second)) // the fault itself
	r.exec("UPDATE ledger.disk SET is_full = false")
	took := r.until(20*time.Second, "the ids are recomputed", "SELECT EXISTS (SELECT FROM ledger.recomputed WHERE product = 'during')")
	atMost(t, "from the first commit that can succeed to a recomputation", took, 5*time.Second)
	p.isReady(10 * time.Second)
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
}

// small mounts a file system of some megabytes that belongs to the server's account; false where that may not be done.
func small(t *testing.T, s *embedded.Server) (space string, ok bool) {
	t.Helper()
	dir, err := os.MkdirTemp("", "small-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Logf("no small file system can be mounted (%v: %s): a failing commit stands for the full disk, see TestCommitsThatFail…", err, out)
		return "", false
	}
	t.Cleanup(func() {
		// Lazily: the server that uses it is stopped a moment later.
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("unmount: %v: %s", err, out)
		}
	})
	info, err := os.Stat(s.DataDir())
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	space = filepath.Join(dir, "space")
	for _, d := range []string{dir, space} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, int(st.Uid), int(st.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return space, true
}

func TestAFullDiskStopsNothingForLongerThanItself(t *testing.T) {
	r := onServer(t, embedded.Config{})
	dir, ok := small(t, r.server)
	if !ok {
		return // what stands for it is a test of its own
	}
	r.exec("CREATE TABLESPACE small LOCATION '" + dir + "'")
	for _, table := range []string{"jobs", "job_additions", "refreshes"} {
		r.exec("ALTER TABLE notifyworker." + table + " SET TABLESPACE small")
	}
	for _, index := range []string{"jobs_pkey", "jobs_due_idx", "jobs_lease_idx", "job_additions_pkey"} {
		r.exec("ALTER INDEX notifyworker." + index + " SET TABLESPACE small")
	}
	p := r.worker("--lease=2s")
	load := r.clients(4, 6, 5*time.Millisecond)
	time.Sleep(time.Second)
	r.exec("CREATE TABLE ledger.filler (x text) TABLESPACE small")
	r.exec("ALTER TABLE ledger.filler ALTER x SET STORAGE plain")
	for i := 0; ; i++ {
		size := []int{1000, 20, 1}[min(i, 2)] // down to the last page
		_, err := try[int](r, "WITH f AS (INSERT INTO ledger.filler SELECT repeat('x', 7000) FROM generate_series(1, $1) RETURNING 1) SELECT count(*)::int FROM f", size)
		if err != nil {
			t.Logf("the disk is full: %v", err)
		}
		if err != nil && size == 1 {
			break
		}
		if err == nil {
			i--
		}
	}
	full := time.Now()
	p.notReady(30*time.Second, "database_failing")
	t.Logf("not ready %v after the disk was full", time.Since(full).Round(time.Millisecond))
	time.Sleep(long(3 * time.Second)) // the fault itself
	if p.gone() {
		t.Fatal("the worker has ended")
	}
	r.exec("DROP TABLE ledger.filler")
	r.exec("CHECKPOINT") // until then the last segment stays
	took := r.until(30*time.Second, "enqueues work again", fmt.Sprintf("SELECT EXISTS (SELECT FROM ledger.recomputed WHERE at > now() - interval '%d ms')", 300))
	atMost(t, "from free space to a recomputation", took, 5*time.Second)
	p.isReady(10 * time.Second)
	load.stop()
	r.settle(60 * time.Second)
	r.judge(load)
}
