package demo

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
)

// words is a connection string of key=value pairs that leads to where a URL does.
func words(t *testing.T, text string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d user=%s password='%s'", cfg.Host, cfg.Port, cfg.User, cfg.Password)
}

func TestTheDemoPlaysInTheDatabaseThatItHasMadeHoweverOneIsNamed(t *testing.T) {
	db := pgtest.Empty(t)
	cfg, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	bare := "postgresql:///?host=" + url.QueryEscape(cfg.Host) + fmt.Sprintf("&port=%d&user=%s&password=%s", cfg.Port, url.QueryEscape(cfg.User), url.QueryEscape(cfg.Password))
	for i, text := range []string{
		db.URL,
		bare + "&pool_max_conns=3",
		bare + "&dbname=" + db.Name,
		bare + "&database=" + db.Name + "&application_name=a%26dbname%3Db",
		bare + "&%64bname=" + db.Name,
		words(t, db.URL) + " dbname=" + db.Name,
		words(t, db.URL) + " database=" + db.Name + " application_name=a://b",
	} {
		made, err := makeDatabase(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := queue.ParseURL(made.url)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := wantDatabase(t.Context(), conn, made.name); err != nil {
			t.Errorf("string %d: %v", i, err)
		}
		if got, want := conn.Config().RuntimeParams["application_name"], "a&dbname=b"; strings.Contains(text, "%26") && got != want {
			t.Errorf("application_name is %q, want %q: the rest of the query stays as it is", got, want)
		}
		conn.Close(t.Context()) //nolint:errcheck // only read from
		if err := made.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheDemoWritesNothingToADatabaseThatIsNotItsOwn(t *testing.T) {
	db := pgtest.Empty(t)
	err := play(t.Context(), Config{}, &database{url: db.URL, name: "notifyworker_demo_0"}, func(string, ...any) {})
	if err == nil || !strings.Contains(err.Error(), "leads to database "+db.Name) {
		t.Errorf("error %v, want one that names both databases", err)
	}
	var schemas int
	if err := db.Conn(t).QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname IN ('notifyworker', 'notifyworker_polling', 'pricing', 'demo')").Scan(&schemas); err != nil || schemas > 0 {
		t.Errorf("%d schemas were made: %v", schemas, err)
	}
}
