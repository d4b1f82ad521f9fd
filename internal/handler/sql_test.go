package handler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifyworker/internal/handler"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"

	"github.com/jackc/pgx/v5/pgxpool"
)

func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Empty(t).Pool(t)
	_, err := pool.Exec(context.Background(), `CREATE TABLE done (job bigint, config jsonb);
		CREATE FUNCTION import(job_id bigint, config jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO done VALUES (job_id, config);
			IF config ? 'raise' THEN
				RAISE EXCEPTION 'said %', config ->> 'raise' USING ERRCODE = config ->> 'raise', DETAIL = coalesce(config ->> 'detail', '');
			END IF;
			PERFORM pg_sleep((config ->> 'sleep')::float8);
			RETURN config -> 'return';
		END $$;
		CREATE FUNCTION quiet(bigint, jsonb) RETURNS void LANGUAGE sql AS 'INSERT INTO done VALUES ($1, $2)';
		CREATE FUNCTION wrong(bigint, jsonb) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
		CREATE FUNCTION many(bigint, jsonb) RETURNS SETOF jsonb LANGUAGE sql AS 'SELECT $2';
		CREATE SCHEMA "Im port"; CREATE FUNCTION "Im port"."X"(bigint, jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT to_jsonb(row(1))';`)
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

func function(t testing.TB, cfg handler.SQLConfig) *handler.SQL {
	t.Helper()
	h, err := handler.NewSQL(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWhatAFunctionMakesOfAJob(t *testing.T) {
	pool := database(t)
	patient := function(t, handler.SQLConfig{Name: "import", Pool: pool, Timeout: time.Minute})
	hasty := function(t, handler.SQLConfig{Name: "import", Pool: pool, Timeout: 200 * time.Millisecond})
	for _, c := range []struct {
		config string
		kind   queue.Kind
		delay  time.Duration
		result string
		says   string
	}{
		{config: `{}`, kind: queue.Completed},
		{config: `{"return": null}`, kind: queue.Completed},
		{config: `{"return": {"Errors": [1]}}`, kind: queue.Completed, result: `{"Errors": [1]}`},
		{config: `{"return": {"n": 9007199254740993}}`, kind: queue.Completed, result: `{"n": 9007199254740993}`},
		{config: `{"return": {"errors": [{"line": 3}]}}`, kind: queue.CompletedWithErrors, result: `{"errors": [{"line": 3}]}`},
		{config: `{"return": {"errors": []}}`, kind: queue.Completed, result: `{"errors": []}`},
		{config: `{"return": 7}`, kind: queue.Failed, says: "not an object: 7"},
		{config: `{"return": {"x": "` + strings.Repeat("x", 1<<20) + `"}}`, kind: queue.Failed, says: "at most 1048576"},
		{config: `{"raise": "NW429"}`, kind: queue.Refused, says: "said NW429"},
		{config: `{"raise": "NW429", "detail": " 2.5 "}`, kind: queue.Refused, delay: 2500 * time.Millisecond},
		{config: `{"raise": "NW429", "detail": "NaN"}`, kind: queue.Refused},
		{config: `{"raise": "NW429", "detail": "1e300"}`, kind: queue.Refused, delay: time.Hour},
		{config: `{"raise": "NW429", "detail": "1e999"}`, kind: queue.Refused, delay: time.Hour},
		{config: `{"raise": "NW429", "detail": "-1e999"}`, kind: queue.Refused},
		{config: `{"raise": "NW429", "detail": "-1"}`, kind: queue.Refused},
		{config: `{"raise": "NW422"}`, kind: queue.Permanent, says: "said NW422"},
		{config: `{"raise": "P0001"}`, kind: queue.Failed, says: "said P0001"},
		{config: `{"sleep": 3600}`, kind: queue.Failed, says: "statement timeout"},
	} {
		t.Run(c.config[:min(60, len(c.config))], func(t *testing.T) {
			if _, err := pool.Exec(context.Background(), `TRUNCATE done`); err != nil {
				t.Fatal(err)
			}
			j := job
			j.Config = []byte(c.config)
			h := patient
			if strings.Contains(c.config, "sleep") {
				h = hasty
			}
			out := h.Handle(context.Background(), j)
			if out.Kind != c.kind || out.Delay != c.delay || string(out.Result) != c.result {
				t.Fatalf("got %v, delay %v, result %.100s (%v)", out.Kind, out.Delay, out.Result, out.Err)
			}
			ok := out.Kind == queue.Completed || out.Kind == queue.CompletedWithErrors
			if ok != (out.Err == nil) || !ok && !strings.Contains(out.Err.Error(), c.says) {
				t.Errorf("error %v, want %q", out.Err, c.says)
			}
			var kept bool
			if err := pool.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM done WHERE job = 7)`).Scan(&kept); err != nil || kept != ok {
				t.Errorf("what the function wrote is kept: %v, %v", kept, err)
			}
		})
	}
}

func TestAFunctionWithoutAnAnswer(t *testing.T) {
	pool := database(t)
	h := function(t, handler.SQLConfig{Name: "public.quiet", Pool: pool})
	if out := h.Handle(context.Background(), job); out.Kind != queue.Completed || out.Result != nil {
		t.Errorf("got %+v", out)
	}
	var config string
	if err := pool.QueryRow(context.Background(), `SELECT config::text FROM done`).Scan(&config); err != nil || config != string(job.Config) {
		t.Errorf("config %s, %v", config, err)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	pool := database(t)
	for name, want := range map[string]string{
		"import": "", `"Im port"."X"`: "", "public.quiet": "",
		"nope": "there is no function nope(bigint, jsonb)", "wrong": "returns text", "many": "not a set", "x(y": "x(y",
	} {
		err := function(t, handler.SQLConfig{Name: name, Pool: pool}).Check(context.Background())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out := function(t, handler.SQLConfig{Name: "nope", Pool: pool}).Handle(context.Background(), job); out.Kind != queue.Failed {
		t.Errorf("got %+v", out)
	}
	if _, err := handler.NewSQL(handler.SQLConfig{Timeout: -1}); err == nil || !strings.Contains(err.Error(), "Pool") {
		t.Errorf("got %v", err)
	}
}

func TestAFunctionThatIsCutOff(t *testing.T) {
	h := function(t, handler.SQLConfig{Name: "import", Pool: database(t)})
	ctx, cancel := context.WithCancelCause(context.Background())
	time.AfterFunc(20*time.Millisecond, func() { cancel(queue.ErrLost) })
	j := job
	j.Config = []byte(`{"sleep": 3600}`)
	if out := h.Handle(ctx, j); out.Kind != queue.Lost || !errors.Is(out.Err, queue.ErrLost) {
		t.Errorf("got %+v", out)
	}
}

// A worker's session cuts its own statements short; what a user's function may take is the type's business.
func TestTheSessionsLimitsAreNotTheFunctions(t *testing.T) {
	pool := database(t)
	cfg := pool.Config()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "1s"
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "1s"
	short, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	j := job
	j.Config = []byte(`{"sleep": 1.5}`)
	if out := function(t, handler.SQLConfig{Name: "import", Pool: short}).Handle(t.Context(), j); out.Kind != queue.Completed {
		t.Errorf("without a limit of its own: %+v", out)
	}
	if out := function(t, handler.SQLConfig{Name: "import", Pool: short, Timeout: 100 * time.Millisecond}).Handle(t.Context(), j); out.Kind != queue.Failed {
		t.Errorf("with a limit of 100 ms: %+v", out)
	}
}
