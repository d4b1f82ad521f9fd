package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is whom the server runs as. PostgreSQL refuses root, so a root caller (a container, a CI) starts it under an
// existing unprivileged account. It must have a passwd entry: initdb looks its own uid up and gives up without one.
type account struct {
	uid, gid int
	name     string // "" for the caller's own
	drop     bool   // the caller is root
}

// accountEnv names the account that root starts the server under.
const accountEnv = "NOTIFYWORKER_PG_USER"

func pickAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if n := os.Getenv(accountEnv); n != "" {
		a, err := lookup(n)
		if err != nil {
			return account{}, fmt.Errorf("account of %s: %w", accountEnv, err)
		}
		return a, nil
	}
	for _, n := range []string{"postgres", "nobody"} {
		if a, err := lookup(n); err == nil {
			return a, nil
		}
	}
	return account{}, fmt.Errorf("root may not run PostgreSQL, and there is no account postgres or nobody to run it as: set %s to an unprivileged account", accountEnv)
}

func lookup(name string) (account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, err
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return account{}, fmt.Errorf("look up %s: %w", name, err)
	}
	if uid == 0 {
		return account{}, fmt.Errorf("%s is root, whom PostgreSQL refuses", name)
	}
	return account{uid: uid, gid: gid, name: name, drop: true}, nil
}

// apply makes cmd run as the account, in an environment of which nothing of the caller's reaches the server.
func (a account) apply(cmd *exec.Cmd) {
	cmd.Dir = "/" // the caller's folder may be closed to the account
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the caller: it stops the server after its own work
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}
