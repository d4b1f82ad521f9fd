package embedded

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestAnUnusableTempFolderIsPassedOver(t *testing.T) {
	for name, dir := range map[string]string{
		"too long":    filepath.Join(shortTemp(t), strings.Repeat("long", 20)),
		"with commas": filepath.Join(shortTemp(t), "a,b 'c\""),
		"missing":     "/nonexistent/folder",
	} {
		t.Run(name, func(t *testing.T) {
			if name != "missing" {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("TMPDIR", dir)
			s := start(t, Config{})
			if !strings.HasPrefix(s.home, "/tmp/nwpg-") {
				t.Errorf("the server is in %s", s.home)
			}
			connect(t, s.URL("postgres"))
		})
	}
	t.Run("closed to the account", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Log("only root runs the server under another account")
			return
		}
		dir := shortTemp(t)
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		connect(t, start(t, Config{}).URL("postgres"))
	})
}

// Others may write to the temporary folder: what they lay there in our name is not used.
func TestSomebodyElsesFolderIsRefused(t *testing.T) {
	name := "nwpg-" + strconv.Itoa(os.Geteuid())
	for what, lay := range map[string]func(p string) error{
		"a link": func(p string) error { return os.Symlink("/tmp", p) },
		"a file": func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"open to all": func(p string) error {
			if err := os.Mkdir(p, 0o700); err != nil {
				return err
			}
			return os.Chmod(p, 0o777)
		},
		"another account's": func(p string) error {
			if os.Geteuid() != 0 {
				return os.WriteFile(p, nil, 0o600) // an account can't give its folders away
			}
			if err := os.Mkdir(p, 0o755); err != nil {
				return err
			}
			return os.Chown(p, 1, 1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			temp := shortTemp(t)
			if err := lay(filepath.Join(temp, name)); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", temp)
			s, err := Start(t.Context(), Config{})
			if err == nil {
				t.Errorf("a server was started in %s: %v", s.home, s.Stop())
			} else if !strings.Contains(err.Error(), "not a private folder") {
				t.Error(err)
			}
		})
	}
}

// Root's tests run once more as an account without rights, home or cache of its own: as in a container.
func TestWorksAsANormalUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("all tests run as a normal user already")
		return
	}
	b, err := findForTest(t)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := cacheRoot()
	if err != nil {
		t.Fatal(err)
	}
	nobody, err := lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	dir := shortTemp(t)
	temp := filepath.Join(dir, "tmp")
	bin := filepath.Join(dir, "embedded.test")
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bin, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"own cache under the temporary folder": {"HOME=/nonexistent", "NOTIFYWORKER_PG=" + b.Dir},
		"cache that is only to be read":        {"HOME=/nonexistent", "NOTIFYWORKER_PG=" + b.Dir, cacheEnv + "=" + cache},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(bin)
			cmd.Dir = "/"
			cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "TMPDIR="+temp, childEnv+"=running")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(nobody.uid), Gid: uint32(nobody.gid)}}
			// Without input it ends at once: killed callers are tested elsewhere.
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "/nwpg-"+strconv.Itoa(nobody.uid)+"/") {
				t.Errorf("as nobody: %v: %s", err, out)
			}
		})
	}
}
