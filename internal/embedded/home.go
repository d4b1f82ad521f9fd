package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

// A server's home, below the base folder, holds lock, log, data and sock: removing it removes all of the server.
const (
	homePrefix = "pg"
	lockName   = "lock" // held as long as the process that started the server lives
	logName    = "log"
	dataName   = "data"
	sockName   = "s"
)

// plainPath is what a folder of sockets may be called: lists of folders and of hosts, in PostgreSQL and in its drivers,
// are split at commas and unquoted in ways of their own.
var plainPath = regexp.MustCompile(`^/[A-Za-z0-9/._+@~=-]*$`)

const maxTemp = 60 // bytes; what is added must fit into the 104 that macOS allows a socket's path

// tempDir is the system's temporary folder, or /tmp where that can't hold a server: its name is too long or peculiar for
// a socket, or the account that the server runs as can't pass through it.
func tempDir(acct account) string {
	d, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil || len(d) > maxTemp || !plainPath.MatchString(d) || !open(d, acct) {
		return "/tmp"
	}
	return d
}

// open says whether the account can pass through d and all above it.
func open(d string, acct account) bool {
	if !acct.drop {
		return writable(d)
	}
	for ; ; d = filepath.Dir(d) {
		fi, err := os.Stat(d)
		if err != nil || fi.Mode().Perm()&0o001 == 0 {
			return false
		}
		if d == "/" {
			return true
		}
	}
}

// privateDir makes or finds a folder of this account's own in the temporary folder. The name is predictable, so that the
// leftovers of a crash can be found: hence it is checked that nobody else made it, to have us write into theirs.
func privateDir(name string) (string, error) {
	acct, err := pickAccount()
	if err != nil {
		return "", err
	}
	p := filepath.Join(tempDir(acct), name)
	mode := fs.FileMode(0o700)
	if acct.drop {
		mode = 0o711 // the account that the server runs as must pass through
	}
	if err := os.Mkdir(p, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	fi, err := os.Lstat(p)
	if err != nil {
		return "", err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is there already and is not a private folder of this account: remove it, or set TMPDIR to another folder", p)
	}
	// A umask may have closed it to the account.
	if acct.drop && fi.Mode().Perm()&0o001 == 0 {
		if err := os.Chmod(p, mode); err != nil {
			return "", err
		}
	}
	return p, nil
}

// newHome makes a home that is locked by this process, after sweeping those of processes that are gone.
func newHome(ctx context.Context, acct account) (home string, lock *os.File, err error) {
	base, err := privateDir("nwpg-" + strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", nil, err
	}
	// Else a sweep could take a home for a dead one between its making and its locking.
	unlock, err := lockFile(ctx, filepath.Join(base, "sweep.lock"))
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	sweep(base)
	home, err = os.MkdirTemp(base, homePrefix)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(home)
		}
	}()
	if acct.drop {
		if err := os.Chmod(home, 0o711); err != nil {
			return "", nil, err
		}
	}
	lock, err = tryLock(filepath.Join(home, lockName))
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	for _, d := range []string{dataName, sockName} {
		p := filepath.Join(home, d)
		if err = os.Mkdir(p, 0o700); err != nil {
			return "", nil, err
		}
		if err = acct.own(p); err != nil {
			return "", nil, err
		}
	}
	return home, lock, nil
}
