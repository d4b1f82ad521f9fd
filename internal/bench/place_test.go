package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"notifyworker/internal/pgtest"
)

// Subscribers of such a publication would stop at the benchmark's tables.
func TestADatabaseThatPublishesAllTablesIsRefused(t *testing.T) {
	db := pgtest.Empty(t)
	if _, err := db.Conn(t).Exec(t.Context(), "CREATE PUBLICATION everything FOR ALL TABLES"); err != nil {
		t.Fatal(err)
	}
	if p, err := openPlace(t.Context(), db.URL, ""); err == nil || !strings.Contains(err.Error(), "FOR ALL TABLES") || p != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

// The connections that are left are counted for a role that may not see whose the others are.
func TestTheConnectionsThatAreLeftAreThoseOfTheRoleToo(t *testing.T) {
	db := pgtest.Empty(t)
	conn := db.Conn(t)
	role := fmt.Sprintf("nwtest_few_%d", rand.Int32()) // roles are the server's, which other tests use too
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("CREATE ROLE " + role + " LOGIN PASSWORD 'few' CONNECTION LIMIT 3")
	defer exec("DROP ROLE " + role)
	cfg := conn.Config()
	p, err := openPlace(t.Context(), fmt.Sprintf("host=%s port=%d dbname=%s user=%s password=few", cfg.Host, cfg.Port, db.Name, role), "")
	if err != nil {
		t.Fatal(err)
	}
	if p.spare != 2 { // one of the three asks
		t.Errorf("%d connections are left, want 2", p.spare)
	}
}

func TestAFolderInMemoryIsKnown(t *testing.T) {
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() && !inMemory("/dev/shm") {
		t.Error("/dev/shm is in memory")
	}
	if inMemory("/proc") || inMemory("/no such folder") {
		t.Error("what is no file system in memory passes for one")
	}
	s := Server{Settings: map[string]string{"fsync": "on", filesIn: "memory"}}
	if got := s.durability(); !strings.Contains(got, "NOT durable") {
		t.Errorf("files in memory are %s", got)
	}
}

// A connection string that run takes is good enough for a measurement.
func TestTheParametersOfAPoolAreTaken(t *testing.T) {
	r := benchRun(t, Config{})
	text, err := withSettings(r.place.url, map[string]string{"pool_max_conns": "3"})
	if err != nil {
		t.Fatal(err)
	}
	r.place.url = text
	cs := []*contender{{name: "here", kind: advisory}, {name: "the floor", kind: floor}}
	if err := r.prepare(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	if err := r.with(t.Context(), cs, func(ctx context.Context) error { return r.warm(ctx, cs) }); err != nil {
		t.Error(err)
	}
	for _, c := range cs {
		if n, first := c.errors(); n > 0 {
			t.Errorf("%s: %d errors, the first %s", c.name, n, first)
		}
	}
	if why, err := r.slowDown(t.Context()); why != "" || err != nil {
		t.Errorf("a slow disk: %s, %v", why, err)
	}
}
