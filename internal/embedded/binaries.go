package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Binaries is one PostgreSQL server installation.
type Binaries struct {
	Dir    string // holds postgres and initdb
	Major  int
	Full   string // the version as `postgres --version` prints it
	Source string // folder, cache, npm or system
}

var versionRE = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect asks a folder's postgres for its version, as the account that will run it: so a folder that is closed to that
// account is found out here, with a text that says so.
func inspect(ctx context.Context, acct account, dir, source string) (Binaries, error) {
	for _, n := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(filepath.Join(dir, n)); err != nil {
			return Binaries{}, fmt.Errorf("folder %s: no %s in it: %w", dir, n, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	acct.apply(cmd)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) && acct.drop {
		return Binaries{}, fmt.Errorf("run %s/postgres as account %q: %w (root runs PostgreSQL under that account: the folder must be open to it)", dir, acct.name, err)
	}
	if err != nil {
		return Binaries{}, fmt.Errorf("run %s/postgres --version: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	m := versionRE.FindStringSubmatch(string(out))
	if m == nil {
		return Binaries{}, fmt.Errorf("run %s/postgres --version: it printed %q", dir, out)
	}
	major, err := strconv.Atoi(m[2])
	if err != nil {
		return Binaries{}, fmt.Errorf("version of %s/postgres: %w", dir, err)
	}
	if major < MinMajor {
		return Binaries{}, fmt.Errorf("folder %s is PostgreSQL %d: %d or newer is needed", dir, major, MinMajor)
	}
	return Binaries{Dir: dir, Major: major, Full: m[1], Source: source}, nil
}

// where installers put servers.
var systemGlobs = []string{
	"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin", "/Library/PostgreSQL/*/bin",
	"/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin",
}

// system finds the newest installed server, of the major that is asked for when that is not 0.
func system(ctx context.Context, acct account, major int) (Binaries, error) {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if r, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(r))
		}
	}
	for _, g := range systemGlobs {
		m, err := filepath.Glob(g)
		if err == nil {
			dirs = append(dirs, m...)
		}
	}
	var found []Binaries
	var passed []error
	seen := map[string]bool{}
	for _, d := range dirs {
		if _, err := os.Stat(filepath.Join(d, "postgres")); err != nil || seen[d] {
			continue
		}
		seen[d] = true
		b, err := inspect(ctx, acct, d, choiceSystem)
		switch {
		case err != nil:
			passed = append(passed, err)
		case major != 0 && b.Major != major:
			passed = append(passed, fmt.Errorf("%s is PostgreSQL %d", d, b.Major))
		default:
			found = append(found, b)
		}
	}
	if len(found) > 0 {
		sort.SliceStable(found, func(i, j int) bool { return found[i].Major > found[j].Major })
		return found[0], nil
	}
	what := fmt.Sprintf("none from version %d on", MinMajor)
	if major != 0 {
		what = fmt.Sprintf("none of version %d", major)
	}
	if len(passed) == 0 {
		return Binaries{}, errors.New(what)
	}
	texts := make([]string, len(passed))
	for i, e := range passed {
		texts[i] = e.Error()
	}
	return Binaries{}, fmt.Errorf("%s (%s)", what, strings.Join(texts, "; "))
}
