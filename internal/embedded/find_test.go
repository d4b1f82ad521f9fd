package embedded

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake lays a postgres that only tells its version.
func fake(t *testing.T, dir, version string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("#!/bin/sh\necho 'postgres (PostgreSQL) "+version+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindSaysWhatItTriedAndTheWaysOn(t *testing.T) {
	t.Setenv(cacheEnv, shortTemp(t))
	t.Setenv("PATH", "/nonexistent") // no npm
	_, err := Find(t.Context(), Config{Major: 99})
	if !errors.Is(err, ErrNoBinaries) {
		t.Fatalf("got %v, want ErrNoBinaries", err)
	}
	for _, want := range []string{"npm package: no package of PostgreSQL 99", "installed servers: none of version 99", "DATABASE_URL", "npm"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if _, err := Find(t.Context(), Config{Choice: "npm"}); err == nil || !strings.Contains(err.Error(), "npm is not installed") {
		t.Errorf("got %v", err)
	}
}

func TestFindTakesAFolder(t *testing.T) {
	dir := shortTemp(t)
	fake(t, filepath.Join(dir, "17"), "17.2 (Debian 17.2-1)")
	fake(t, filepath.Join(dir, "14"), "14.1")
	fake(t, filepath.Join(dir, "odd"), "")
	b, err := Find(t.Context(), Config{Choice: filepath.Join(dir, "17")})
	if err != nil || b.Major != 17 || b.Full != "17.2" || b.Source != "folder" {
		t.Errorf("got %+v, %v", b, err)
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Choice: filepath.Join(dir, "17"), Major: 16}, "PostgreSQL 17, not 16"},
		{Config{Choice: filepath.Join(dir, "14")}, "PostgreSQL 14: 15 or newer is needed"},
		{Config{Choice: filepath.Join(dir, "odd")}, "it printed"},
		{Config{Choice: dir}, "no postgres in it"},
		{Config{Choice: "14"}, "needs 15 or newer"},
		{Config{Choice: "15", Major: 16}, "contradict"},
		{Config{Choice: "bin"}, "none of auto, npm, system"},
	} {
		if _, err := Find(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
		}
	}
}

func TestAnOlderMajorPrefersTheInstalledServer(t *testing.T) {
	dir := shortTemp(t)
	fake(t, dir, "15.99")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	b, err := Find(t.Context(), Config{Choice: "15"})
	if err != nil || b.Full != "15.99" || b.Source != choiceSystem {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestThePackageOfFifteenRuns(t *testing.T) {
	b, err := Package(t.Context(), 15)
	if err != nil {
		t.Fatal(err)
	}
	if b.Major != 15 {
		t.Errorf("got %+v", b)
	}
	s := start(t, Config{Choice: "npm", Major: 15})
	if got := show(t, connect(t, s.URL("postgres")), "server_version"); !strings.HasPrefix(got, "15.") {
		t.Errorf("server_version is %s", got)
	}
	if again, err := Package(t.Context(), 15); err != nil || again.Source != "cache" {
		t.Errorf("the second time: %+v, %v, want it from the cache", again, err)
	}
}

func TestATarballThatIsNotThePinnedOneIsRefused(t *testing.T) {
	dir := shortTemp(t)
	npm := "#!/bin/sh\nfor a; do case $prev in --pack-destination) echo forged > \"$a/x.tgz\";; esac; prev=$a; done\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	cache := shortTemp(t)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv(cacheEnv, cache)
	_, err := Package(t.Context(), 18)
	if err == nil || !strings.Contains(err.Error(), "is pinned") {
		t.Errorf("got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(left) != 1 { // the lock
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}

func TestUnpackStaysInItsFolder(t *testing.T) {
	pack := func(name, body string) []byte {
		var buf bytes.Buffer
		zw := gzip.NewWriter(&buf)
		tw := tar.NewWriter(zw)
		if err := tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(tw.Close(), zw.Close()); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	dst := filepath.Join(t.TempDir(), "out")
	if err := unpack(pack("package/native/../../../evil", "x"), dst); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dst, "../evil")); err == nil {
		t.Error("a file was written outside")
	}
	for _, links := range []string{
		`[{"source":"native/lib/a","target":"native/../../evil"}]`,
		`[{"source":"native/../../etc/passwd","target":"native/lib/a"}]`,
		`[{"source":"native/bin/a","target":"native/lib/a"}]`,
	} {
		if err := unpack(pack("package/native/pg-symlinks.json", links), dst); err == nil || !strings.Contains(err.Error(), "unsafe") {
			t.Errorf("%s: got %v", links, err)
		}
	}
	if err := unpack([]byte("no gzip"), dst); err == nil {
		t.Error("rubbish was unpacked")
	}
}
