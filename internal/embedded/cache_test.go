package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func exists(p string) bool {
	_, err := os.Lstat(p)
	return !errors.Is(err, os.ErrNotExist)
}

func TestTheSecondStartCopiesATemplate(t *testing.T) {
	b, err := findForTest(t)
	if err != nil {
		t.Fatal(err)
	}
	cache := shortTemp(t)
	t.Setenv(cacheEnv, cache)
	// Many at once: one makes the template.
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := Start(t.Context(), Config{Choice: b.Dir})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made, err := filepath.Glob(filepath.Join(cache, templatePrefix+"*"+originSuffix))
	if err != nil || len(made) != 1 {
		t.Fatalf("templates: %v, %v, want one", made, err)
	}
	// Whoever copies does not run initdb: a mark in the template is found in the data.
	tmpl := made[0][:len(made[0])-len(originSuffix)]
	if err := os.WriteFile(filepath.Join(tmpl, "mark"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := start(t, Config{Choice: b.Dir}); !exists(filepath.Join(s.DataDir(), "mark")) {
		t.Error("the second start did not copy the template")
	}
}

func TestCachesArePruned(t *testing.T) {
	cache := t.TempDir()
	mkdir := func(names ...string) {
		for _, n := range names {
			if err := os.MkdirAll(filepath.Join(cache, n, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	kept := packagePrefix + packages[newestPackage].version
	mkdir("pg-1.0", "pg-2.0", kept, "initdb-gone", "initdb-there")
	inUse := Binaries{Dir: filepath.Join(cache, "pg-2.0", "bin"), Source: "cache"}.use()
	if inUse == nil {
		t.Fatal("no lock on a package in use")
	}
	prunePackages(cache)
	if exists(filepath.Join(cache, "pg-1.0")) || !exists(filepath.Join(cache, "pg-2.0")) || !exists(filepath.Join(cache, kept)) {
		t.Error("an old package is still there, or one in use or current is gone")
	}
	inUse.Close()
	prunePackages(cache)
	if exists(filepath.Join(cache, "pg-2.0")) {
		t.Error("a package that nobody uses any more is still there")
	}
	fake(t, filepath.Join(cache, "bins"), "18.1")
	for name, dir := range map[string]string{"initdb-gone": "/nonexistent/bin", "initdb-there": filepath.Join(cache, "bins")} {
		if err := os.WriteFile(filepath.Join(cache, name+originSuffix), []byte(dir+"\n18.1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pruneTemplates(cache)
	if exists(filepath.Join(cache, "initdb-gone")) || !exists(filepath.Join(cache, "initdb-there")) {
		t.Error("the template of gone binaries is still there, or another is gone")
	}
}
