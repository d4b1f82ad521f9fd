package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"notifyworker/internal/engine"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/internal/webcall"
)

// pages lists every page of the project that is written by hand.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "decisions/*.md", "../*.md", "../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// anchors are what the headings of a page can be linked by.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text := fenced.ReplaceAllString(read(t, page), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), path)
			if path == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// Prose is broken where a screen ends. A table's row is one line, and a link one word.
func TestLinesOfProseFitAScreen(t *testing.T) {
	const most = 140
	for _, page := range pages(t) {
		for _, l := range strings.Split(fenced.ReplaceAllString(read(t, page), ""), "\n") {
			if n := utf8.RuneCountInString(l); n > most && !strings.HasPrefix(l, "|") && !strings.HasPrefix(l, "<!--") {
				t.Errorf("%s has a line of %d characters, more than %d: %.60s…", page, n, most, l)
			}
		}
	}
}

// What the pages say in numbers.
func TestNumbersOfThePagesAreThoseOfTheCode(t *testing.T) {
	says := func(page, text string) {
		t.Helper()
		if !strings.Contains(strings.Join(strings.Fields(read(t, page)), " "), text) {
			t.Errorf("%s does not say %q any more: does the test below still watch what it says now?", page, text)
		}
	}
	conn := pgtest.DB(t).Conn(t)
	var jobs, additions int
	err := conn.QueryRow(t.Context(), `INSERT INTO notifyworker.jobs (type) VALUES ('x') RETURNING max_attempts`).Scan(&jobs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT notifyworker.enqueue_price_refresh('c', '[]')`); err != nil {
		t.Fatal(err)
	}
	err = conn.QueryRow(t.Context(), `SELECT max_attempts FROM notifyworker.jobs WHERE catalog_id = 'c'`).Scan(&additions)
	if err != nil {
		t.Fatal(err)
	}
	says("decisions/0006-refusals-count-as-attempts.md", "100 for a PRICE_REFRESH, 20 for others")
	says("sql-api.md", "The default is 20, and 100 for a PRICE_REFRESH")
	if jobs != 20 || additions != 100 {
		t.Errorf("the defaults are %d and %d", jobs, additions)
	}

	says("decisions/0005-lease-of-eight-seconds.md", "8 s, extended every quarter")
	if queue.DefaultLease != 8*time.Second {
		t.Errorf("the lease is %v", queue.DefaultLease)
	}

	says("configuration.md", "1s, for a PRICE_REFRESH 100ms")
	says("configuration.md", "5m, for a PRICE_REFRESH 10s")
	if queue.DefaultBackoffBase != time.Second || queue.PriceRefreshBackoffBase != 100*time.Millisecond ||
		queue.DefaultBackoffCap != 5*time.Minute || queue.PriceRefreshBackoffCap != 10*time.Second {
		t.Error("the back-offs are others")
	}

	says("protocol.md", "1,024 stripes")
	var stripes int
	err = conn.QueryRow(t.Context(), `SELECT count(DISTINCT notifyworker.catalog_stripe('00000000-0000-0000-0000-000000000000', g::text)) FROM generate_series(1, 50000) g`).Scan(&stripes)
	if err != nil || stripes != 1024 {
		t.Errorf("there are %d stripes, %v", stripes, err)
	}

	code := func(file string, lines ...string) {
		t.Helper()
		text := strings.Join(strings.Fields(read(t, file)), " ")
		for _, l := range lines {
			if !strings.Contains(text, l) {
				t.Errorf("%s does not say %q any more: mend the page and this test", file, l)
			}
		}
	}
	says("engine.md", "chunk by chunk** (500 ids by default)")
	says("engine.md", "the handler has waited 5 s for a place")
	if engine.DefaultChunk != 500 || engine.DefaultQueueWait != 5*time.Second {
		t.Error("the engine's defaults are others")
	}
	says("engine.md", "goes on trying for 6 h")
	says("engine.md", "tries 3 times, then halves")
	says("engine.md", "first after 200 ms, then less and less often up to 30 s, for 30 min")
	says("engine.md", "at most 64 parts of a chunk are tried, and 1,000 of a refresh")
	code("../internal/engine/patience.go", "orDefault(p.Tries, 3)", "orDefault(p.First, 200*time.Millisecond)", "orDefault(p.Cap, 30*time.Second)",
		"orDefault(p.OutageFor, 30*time.Minute)", "orDefault(p.LaterFor, 6*time.Hour)", "maxParts = 64", "maxPartsRefresh = 1000")
	says("engine.md", "SQLSTATE classes 21, 22, 23, 44, 54, P0")
	code("../internal/engine/classify.go", `{"21", "22", "23", "44", "54", "P0"}`)
	says("engine.md", "taken over 5 times without any progress")
	code("../internal/engine/engine.go", "maxTakeovers = 5")
	says("protocol.md", "a slow poll, every 30 s")
	says("protocol.md", "looks every half second until it can")
	says("protocol.md", "has not given a sign of life for a minute")
	code("../internal/worker/idle.go", "barrierAgain = 500 * time.Millisecond")
	code("../triggers/25_notify.sql", "interval '1 minute'")
	code("../internal/listen/config.go", "defaultPoll = 30 * time.Second")
	says("handlers.md", "a minute where there is none")
	if webcall.DefaultTimeout != time.Minute {
		t.Error("a call may take another time")
	}
}
