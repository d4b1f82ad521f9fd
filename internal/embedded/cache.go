package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cacheEnv names the folder of fetched packages and initialised data folders.
const cacheEnv = "NOTIFYWORKER_CACHE"

const packagePrefix = "pg-" // of a package's folder in the cache; its version follows

// cacheRoot makes the cache's folder. It must be readable by the account that the server runs as, so root, whose home is
// closed to others, uses a system-wide one. A caller without a home gets one under the temporary folder.
func cacheRoot() (string, error) {
	if d := os.Getenv(cacheEnv); d != "" {
		if !filepath.IsAbs(d) {
			return "", fmt.Errorf("%s is %q: it must be an absolute folder", cacheEnv, d)
		}
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", fmt.Errorf("cache of %s: %w", cacheEnv, err)
		}
		return d, nil
	}
	d := "/var/cache/notifyworker"
	if os.Geteuid() != 0 {
		user, err := os.UserCacheDir()
		if err != nil {
			return privateDir("notifyworker-cache-" + strconv.Itoa(os.Geteuid()))
		}
		d = filepath.Join(user, "notifyworker")
	}
	if err := os.MkdirAll(d, 0o755); err != nil || !writable(d) {
		return privateDir("notifyworker-cache-" + strconv.Itoa(os.Geteuid()))
	}
	return d, nil
}

// templateRoot is the cache, or a folder of our own where the cache is only to be read: a container's image may have
// brought the package along.
func templateRoot() (string, error) {
	d, err := cacheRoot()
	if err != nil || writable(d) {
		return d, err
	}
	return privateDir("notifyworker-cache-" + strconv.Itoa(os.Geteuid()))
}

func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return false
	}
	f.Close()
	os.Remove(f.Name())
	return true
}

// prunePackages removes unpacked packages that no version of packages names any more and that no server uses.
func prunePackages(cache string) {
	dirs, err := filepath.Glob(filepath.Join(cache, packagePrefix+"*"))
	if err != nil {
		return
	}
	keep := map[string]bool{}
	for _, p := range packages {
		keep[packagePrefix+p.version] = true
	}
	for _, d := range dirs {
		base := filepath.Base(d)
		if keep[base] || strings.HasSuffix(base, useSuffix) {
			continue
		}
		f, err := tryLock(d + useSuffix)
		if err != nil {
			continue // another program still runs it
		}
		os.RemoveAll(d)
		os.Remove(d + useSuffix)
		f.Close()
	}
}

const useSuffix = ".use" // of the file that servers of a package hold a shared lock on

// use takes the shared lock of a cached package, so that nobody prunes it under a running server. It returns nil for
// other binaries.
func (b Binaries) use() *os.File {
	dir := filepath.Dir(b.Dir)
	if b.Source != "cache" && b.Source != choiceNPM {
		return nil
	}
	f, err := sharedLock(dir + useSuffix)
	if err != nil {
		return nil // a cache that can't be written can't be pruned either
	}
	return f
}
