package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"notifyworker/migrations"
)

// shard is one of the databases that DATABASE_URL names.
type shard struct {
	name             string // without secrets; no two shards have the same
	url              string
	conn, listenConn *pgx.ConnConfig
}

// shards are all databases that are named, at least one, or what is wrong with them and with the schema's name.
func (d *database) shards() ([]shard, error) {
	var errs []error
	if err := migrations.ValidSchema(d.schema()); err != nil {
		errs = append(errs, err)
	}
	shards, err := parseURLs("DATABASE_URL", d.DatabaseURL)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return shards, nil
}

// parseURLs reads a setting that may name several databases.
func parseURLs(setting string, texts []string) ([]shard, error) {
	urls, err := splitURLs(setting, texts)
	if err != nil {
		return nil, err
	}
	var shards []shard
	var errs []error
	seen := map[string]bool{}
	for i, u := range urls {
		of := setting
		if len(urls) > 1 {
			of = fmt.Sprintf("%s (number %d of %d)", setting, i+1, len(urls))
		}
		c, err := parseURL(of, u)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s := shard{name: shortName(c), url: u, conn: c, listenConn: c}
		if seen[s.name] {
			errs = append(errs, fmt.Errorf("%s names %s twice", setting, s.name))
		}
		seen[s.name] = true
		shards = append(shards, s)
	}
	return shards, errors.Join(errs...)
}

// splitURLs takes apart what blanks separate. A comma would not do, since it stands between the hosts of one database; neither
// would a blank between key=value pairs, which are full of them: so only URLs can be several. No word is quoted in the error,
// for it may be the second half of a password.
func splitURLs(setting string, texts []string) ([]string, error) {
	text := strings.TrimSpace(strings.Join(texts, "\n"))
	words := strings.Fields(text)
	urls := 0
	for _, w := range words {
		if strings.HasPrefix(w, "postgres://") || strings.HasPrefix(w, "postgresql://") {
			urls++
		}
	}
	switch {
	case strings.Contains(text, ",postgres://"), strings.Contains(text, ",postgresql://"):
		return nil, fmt.Errorf("%s has a comma between URLs: separate several databases by blanks or new lines", setting)
	case urls == len(words) && urls > 0:
		return words, nil
	case len(texts) > 1 || urls > 1 || urls == 1 && !strings.HasPrefix(text, "postgres"):
		return nil, fmt.Errorf("%s names several databases, and not all of them by a URL: write each as postgres://user:password@host:5432/database, with a blank or a new line between them and %%20 for a blank within", setting)
	}
	return []string{text}, nil // one, or none
}

// onlyOne is for what can be done with one database alone.
func onlyOne(shards []shard) (*pgx.ConnConfig, error) {
	if len(shards) == 1 {
		return shards[0].conn, nil
	}
	var names []string
	for _, s := range shards {
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("%d databases are named, %s, and this is for one: say which by --database-url", len(shards), strings.Join(names, " and "))
}

// addListeners sets where the listener of each database connects, if not as everything else does.
func addListeners(shards []shard, listenURL []string) error {
	if strings.TrimSpace(strings.Join(listenURL, "")) == "" {
		return nil
	}
	urls, err := splitURLs("listen_url", listenURL)
	if err != nil {
		return err
	}
	if len(shards) > 0 && len(urls) != len(shards) {
		return fmt.Errorf("listen_url names %d databases and DATABASE_URL %d: name as many, in the same order", len(urls), len(shards))
	}
	var errs []error
	for i, u := range urls {
		c, err := parseURL("listen_url", u)
		errs = append(errs, err)
		if i < len(shards) {
			shards[i].listenConn = c
		}
	}
	return errors.Join(errs...)
}

// shortName is what a database is called where there are several of them, and in metrics: host:port/database, of the first host
// where several are named. It goes into headers and labels, so what these can't carry stands there as in a URL.
func shortName(c *pgx.ConnConfig) string {
	database := c.Database
	if database == "" {
		database = c.User // as the server would take it
	}
	port := strconv.Itoa(int(c.Port))
	name := net.JoinHostPort(c.Host, port) + "/" + database
	if strings.HasPrefix(c.Host, "/") {
		name = c.Host + ":" + port + "/" + database
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		name = (&url.URL{Path: name}).EscapedPath()
	}
	return name
}
