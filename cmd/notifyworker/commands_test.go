package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifyworker/examples/pricing"
	"notifyworker/internal/pgtest"
)

func TestMigrateSaysWhatItApplied(t *testing.T) {
	db := pgtest.Empty(t)
	env := map[string]string{"DATABASE_URL": db.URL, "NOTIFYWORKER_SCHEMA": "Prix-2"}
	code, _, stderr := notifyworker(t, env, "stats")
	if code != exitFailure {
		t.Errorf("exit code %d before the schema is there", code)
	}
	wantAll(t, stderr, `run "notifyworker migrate"`)
	code, stdout, stderr := notifyworker(t, env, "migrate")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	wantAll(t, stdout, "applied 0001_", "schema Prix-2 is ready")
	if code, stdout, _ = notifyworker(t, env, "migrate"); code != exitOK || !strings.Contains(stdout, "up to date") {
		t.Errorf("the second time: exit code %d, %s", code, stdout)
	}
	if code, stdout, _ = notifyworker(t, env, "enqueue", "--catalog=c", "--product=p"); code != exitOK {
		t.Errorf("enqueue into the schema: exit code %d, %s", code, stdout)
	}
	code, _, stderr = notifyworker(t, env, "run", "--recompute=none", "--variant=cte")
	if code != exitFailure {
		t.Errorf("exit code %d of a worker for another variant", code)
	}
	wantAll(t, stderr, "has the variant advisory, this worker is configured for cte", "notifyworker migrate --variant=cte")
}

func TestStatsSendNothingToTheTerminalThatItObeys(t *testing.T) {
	db := pgtest.DB(t)
	_, err := db.Conn(t).Exec(t.Context(), `SELECT notifyworker.enqueue_job(E'a\x1b[31m\tb\nc'), notifyworker.enqueue_job('été 1'), notifyworker.enqueue_job('done');
		UPDATE notifyworker.jobs SET type = E'd\x1b[2J', status = 'FAILED', finished_at = now() WHERE type = 'done';
		INSERT INTO notifyworker.workers (id, host, pid, version, slots) VALUES (gen_random_uuid(), E'h\x1b[0m', 1, E'v\r', 1)`)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := notifyworker(t, map[string]string{"DATABASE_URL": db.URL}, "stats")
	if code != exitOK || strings.ContainsAny(stdout, "\x1b\t\r") {
		t.Errorf("exit code %d: %q %s", code, stdout, stderr)
	}
	wantAll(t, stdout, `"a\x1b[31m\tb\nc"`, "été 1", `"d\x1b[2J"`, `"h\x1b[0m"`, `"v\r"`)
}

func TestEnqueueSaysThatATriggerHasPassedOverTheJob(t *testing.T) {
	db := pgtest.DB(t)
	_, err := db.Conn(t).Exec(t.Context(), `CREATE FUNCTION pass_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER pass_over BEFORE INSERT ON notifyworker.jobs FOR EACH ROW EXECUTE FUNCTION pass_over()`)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"enqueue", "--type=report"}, {"refresh", "--catalog=c", "--full"}} {
		code, stdout, stderr := notifyworker(t, map[string]string{"DATABASE_URL": db.URL}, args...)
		if code != exitFailure || stdout != "" {
			t.Errorf("%v: exit code %d, %q", args, code, stdout)
		}
		wantAll(t, stderr, "a trigger of yours on jobs")
	}
}

func TestEnqueuePrintsTheJobAndWhetherTheIdsJoined(t *testing.T) {
	db := pgtest.DB(t)
	env := map[string]string{"DATABASE_URL": db.URL}
	ok := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := notifyworkerWithInput(t, env, "p7\r\n\np8\n", args...)
		if code != exitOK {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
		wantAll(t, stdout, want)
	}
	ok("created job 1", "enqueue", "--catalog=c", "--product=p1", "--product=a,b", "--delay=1h", "--trace-id=t")
	ok("joined job 1", "enqueue", "--catalog=c", "--products-file=-")
	ok("created job 2", "refresh", "--catalog=d", "--full", "--operated-by=11111111-1111-1111-1111-111111111111")
	ok("joined job 2", "refresh", "--catalog=d", "--product=p1")
	input := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(input, []byte(` {"n": 9007199254740993}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ok("created job 3", "enqueue", "--type=csv_import", "--job-config=@"+input, "--max-attempts=3", "--tenant=00000000-0000-0000-0000-000000000000")
	ok("job 3 is cancelled", "cancel", "3")
	ok("job 3 waits again", "replay", "3")
	ok("csv_import", "stats")

	conn := db.Conn(t)
	var ids, n, trace string
	var attempts int
	err := conn.QueryRow(t.Context(), `SELECT (SELECT config ->> 'productIds' FROM notifyworker.jobs WHERE id = 1), (SELECT trace_id FROM notifyworker.jobs WHERE id = 1),
		(SELECT config ->> 'n' FROM notifyworker.jobs WHERE id = 3), (SELECT max_attempts FROM notifyworker.jobs WHERE id = 3)`).Scan(&ids, &trace, &n, &attempts)
	if err != nil || ids != `["p1", "a,b"]` || trace != "t" || n != "9007199254740993" || attempts != 3 {
		t.Errorf("stored ids %s, trace %s, n %s, attempts %d: %v", ids, trace, n, attempts, err)
	}

	dir := t.TempDir()
	odd := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const all = `SELECT (SELECT count(*) FROM notifyworker.jobs) + (SELECT count(*) FROM notifyworker.job_additions)`
	var before, after int
	if err := conn.QueryRow(t.Context(), all).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "give --catalog", []string{"enqueue"}},
		{exitUsage, "give --catalog", []string{"enqueue", "--catalog=c", "--type=x"}},
		{exitUsage, "name the products", []string{"enqueue", "--catalog=c"}},
		{exitUsage, "not a JSON object", []string{"enqueue", "--type=x", "--job-config=[1]"}},
		{exitUsage, "not a JSON object", []string{"enqueue", "--type=x", "--job-config= "}},
		{exitUsage, "max-attempts", []string{"enqueue", "--type=x", "--max-attempts=0"}},
		{exitUsage, "tenant is", []string{"enqueue", "--type=x", "--tenant=me"}},
		{exitUsage, `tenant is ""`, []string{"enqueue", "--type=x", "--tenant="}},
		{exitUsage, `operated-by is ""`, []string{"refresh", "--catalog=c", "--full", "--operated-by", ""}},
		{exitUsage, "delay is", []string{"enqueue", "--catalog=c", "--product=p", "--delay=-1s"}},
		{exitUsage, "product 2 is empty", []string{"enqueue", "--catalog=c", "--product=p", "--product="}},
		{exitUsage, "product 1 is empty", []string{"refresh", "--catalog=c", "--product", ""}},
		{exitUsage, "argument 3 is not UTF-8", []string{"enqueue", "--catalog=c", "--product=p\xff"}},
		{exitUsage, "argument 3 is not UTF-8", []string{"enqueue", "--type=x", "--job-config={\"a\": \"\xff\"}"}},
		{exitUsage, "line 2 of " + odd("nul", "p1\np\x00\n") + " has a NUL", []string{"enqueue", "--catalog=c", "--products-file=" + odd("nul", "p1\np\x00\n")}},
		{exitUsage, "longer than 1 MiB", []string{"enqueue", "--catalog=c", "--products-file=" + odd("long", strings.Repeat("p", 1<<21))}},
		{exitUsage, "not UTF-8", []string{"enqueue", "--catalog=c", "--products-file=" + odd("latin", "caf\xe9\n")}},
		{exitUsage, "name the products", []string{"enqueue", "--catalog=c", "--products-file=" + odd("empty", "\ufeff\n\r\n")}},
		{exitFailure, "no such file", []string{"enqueue", "--catalog=c", "--products-file=/nowhere"}},
		{exitUsage, "argument 2 is not UTF-8", []string{"enqueue", "--catalog=c\xff", "--product=p"}},
		{exitFailure, `\u0000 cannot be converted`, []string{"enqueue", "--type=x", `--job-config={"a": "\u0000"}`}},
		{exitFailure, "at most 512", []string{"enqueue", "--type=x", "--trace-id=" + strings.Repeat("t", 600)}},
		{exitFailure, "can't keep config.note", []string{"enqueue", "--type=PRICE_REFRESH", `--job-config={"catalogId": "c", "productIds": [], "note": 1}`}},
		{exitUsage, "either --full", []string{"refresh", "--catalog=c"}},
		{exitUsage, "either --full", []string{"refresh", "--catalog=c", "--full", "--product=p"}},
		{exitFailure, "1024", []string{"refresh", "--full", "--catalog=" + strings.Repeat("c", 2000)}},
		{exitFailure, `not present in table "tenants"`, []string{"enqueue", "--type=x", "--tenant=22222222-2222-2222-2222-222222222222"}},
		{exitFailure, "job 99 does not exist", []string{"cancel", "99"}},
		{exitFailure, "job 1 is not FAILED", []string{"replay", "1", "99"}},
	} {
		code, stdout, stderr := notifyworker(t, env, tt.args...)
		if code != tt.code {
			t.Errorf("%.200v: exit code %d, want %d: %s", tt.args, code, tt.code, stderr)
		}
		wantAll(t, stdout+stderr, tt.want)
	}
	if err := conn.QueryRow(t.Context(), all).Scan(&after); err != nil || after != before {
		t.Errorf("what was refused has left %d rows, %v", after-before, err)
	}
	// What an editor puts before the first line is no part of an id; letters that look alike are different ids.
	ok("joined job 1", "enqueue", "--catalog=c", "--products-file="+odd("bom", "\ufeffé\ne\u0301\n \u200b\U0001f600\n"))
	var added string
	if err := conn.QueryRow(t.Context(), `SELECT product_ids::text FROM notifyworker.job_additions ORDER BY id DESC LIMIT 1`).Scan(&added); err != nil || added != "[\"é\", \"e\u0301\", \" \u200b\U0001f600\"]" {
		t.Errorf("added %q, %v", added, err)
	}
}

func TestLoadPublishesAndReports(t *testing.T) {
	db := pgtest.DB(t)
	env := map[string]string{"DATABASE_URL": db.URL + ifAny(db.URL, "pool_max_conns=3")}
	file := filepath.Join(t.TempDir(), "tariffs.csv")
	if err := os.WriteFile(file, pricing.SampleTariffs(), 0o600); err != nil {
		t.Fatal(err)
	}
	rejects := filepath.Join(t.TempDir(), "rejects.csv")
	code, stdout, stderr := notifyworker(t, env, "load", file, "--rejects", rejects)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	wantAll(t, stdout, "updates published  101", "lines rejected     5", "jobs created")
	wantAll(t, stderr, "line 18 rejected: unit_price -4.95 is negative")
	if data, err := os.ReadFile(rejects); err != nil || strings.Count(string(data), "\n") != 6 {
		t.Errorf("rejects: %v, %s", err, data)
	}
	code, stdout, _ = notifyworkerWithInput(t, env, string(pricing.SampleTariffs()), "load", "-", "--connections=1", "--speed=1e9")
	if code != exitOK {
		t.Errorf("from standard input: exit code %d", code)
	}
	wantAll(t, stdout, "updates published  101")
	for _, tt := range []struct {
		code int
		want string
		args []string
	}{
		{exitFailure, "no such file", []string{"load", "/nowhere.csv"}},
		{exitFailure, "is a folder", []string{"load", "/"}},
		{exitFailure, "column unit_price is missing", []string{"load", rejects}},
		{exitUsage, "speed is", []string{"load", file, "--speed=0"}},
		{exitUsage, "connections is", []string{"load", file, "--connections=99"}},
		{exitUsage, "--rejects names the file", []string{"load", file, "--rejects", filepath.Join(filepath.Dir(file), ".", "tariffs.csv")}},
	} {
		code, stdout, stderr := notifyworker(t, env, tt.args...)
		if code != tt.code {
			t.Errorf("%v: exit code %d, want %d: %s", tt.args, code, tt.code, stderr)
		}
		wantAll(t, stdout+stderr, tt.want)
	}
}

// ifAny adds a parameter to a URL.
func ifAny(url, parameter string) string {
	if strings.Contains(url, "?") {
		return "&" + parameter
	}
	return "?" + parameter
}
