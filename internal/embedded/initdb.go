package embedded

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hba is trust on the socket, whose folder only its owner and root can enter, and a password on TCP, which every local
// account can reach.
const hba = `local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 scram-sha-256
`

const (
	templatePrefix = "initdb-" // of a freshly initialised data folder in the cache
	originSuffix   = ".from"   // of the file beside it that names the binaries it was made by
)

// initData copies a cached, freshly initialised data folder: initdb takes seconds, the copy a tenth of one.
func (s *Server) initData(ctx context.Context) error {
	args := []string{"-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"}
	if s.Major >= 17 {
		args = append(args, "--locale-provider=builtin", "--locale=C.UTF-8")
	} else {
		args = append(args, "--locale=C")
	}
	cache, err := templateRoot()
	if err != nil {
		return err
	}
	// The key covers all that shapes the result.
	origin := s.Dir + "\n" + s.Full + "\n" + strings.Join(args, " ")
	h := sha256.Sum256([]byte(origin))
	tmpl := filepath.Join(cache, templatePrefix+hex.EncodeToString(h[:8]))
	lockPath := filepath.Join(cache, "initdb.lock")
	for {
		// Shared while copying: whoever makes or prunes templates has it alone.
		f, err := sharedLock(lockPath)
		if err != nil {
			return err
		}
		if initialised(tmpl) {
			err := copyTree(tmpl, s.dataDir(), s.acct)
			f.Close()
			if err != nil {
				return fmt.Errorf("copy %s: %w", tmpl, err)
			}
			break
		}
		f.Close()
		if err := s.makeTemplate(ctx, cache, tmpl, lockPath, origin, args); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(s.dataDir(), "pg_hba.conf"), []byte(hba), 0o600)
}

func initialised(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "PG_VERSION"))
	return err == nil
}

func (s *Server) makeTemplate(ctx context.Context, cache, tmpl, lockPath, origin string, args []string) error {
	unlock, err := lockFile(ctx, lockPath)
	if err != nil {
		return err
	}
	defer unlock()
	if initialised(tmpl) {
		return nil // another process was faster
	}
	s.cfg.log("making a data folder of PostgreSQL " + s.Full + ", once (copied from then on)")
	pruneTemplates(cache)
	// initdb works in the server's home, where the account is sure to get; the cache may be closed to it.
	made := filepath.Join(s.home, "init")
	if err := errors.Join(os.Mkdir(made, 0o700), s.acct.own(made)); err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := s.initdb(ctx, made, args); err != nil {
		return err
	}
	// Copied under a name of its own and renamed: a killed copy is never taken for a template.
	tmp := tmpl + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := copyTree(made, tmp, account{}); err != nil {
		return err
	}
	if err := os.WriteFile(tmpl+originSuffix, []byte(origin), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, tmpl)
}

// initdb runs under the guard's eye, as the server does.
func (s *Server) initdb(ctx context.Context, dir string, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.Dir, "initdb"), append([]string{"-D", dir}, args...)...)
	s.acct.apply(cmd)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	told := s.guard.started(cmd.Process.Pid)
	err := cmd.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s as account %q: %w: %s", cmd.Path, s.acct.name, err, bytes.TrimSpace(out.Bytes()))
	}
	return errors.Join(err, told, s.guard.none())
}

// pruneTemplates removes templates whose binaries are gone. The caller has the lock alone.
func pruneTemplates(cache string) {
	origins, err := filepath.Glob(filepath.Join(cache, templatePrefix+"*"+originSuffix))
	if err != nil {
		return
	}
	for _, o := range origins {
		text, err := os.ReadFile(o)
		if err != nil {
			continue
		}
		dir, _, _ := strings.Cut(string(text), "\n")
		if _, err := os.Stat(filepath.Join(dir, "postgres")); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		tmpl := strings.TrimSuffix(o, originSuffix)
		os.RemoveAll(tmpl)
		os.RemoveAll(tmpl + ".tmp")
		os.Remove(o)
	}
}

// copyTree copies src into dst, which may exist, for the account.
func copyTree(src, dst string, acct account) error {
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		out := filepath.Join(dst, rel)
		if d.IsDir() {
			if err := os.MkdirAll(out, 0o700); err != nil {
				return err
			}
			return acct.own(out)
		}
		if err := copyFile(p, out); err != nil {
			return err
		}
		return acct.own(out)
	})
}

func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in) // the kernel copies, on Linux
	return errors.Join(err, out.Close())
}
