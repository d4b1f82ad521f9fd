package embedded

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// guardScript waits on its standard input, a pipe whose only writer is our process, and learns there which server runs.
// At the end of file, which Stop makes, or our death whatever its kind, it ends the server that still runs and removes
// its home. The data is thrown away, so the server need not shut down in order.
//
// "starting" is told before a server is forked: should we die before its pid is told, the pid is in the server's own file
// a moment later. A server that is gone may stay a zombie where no init reaps: then its file has gone all the same.
const guardScript = `
home=$1; file=$1/data/postmaster.pid; pid=
while read -r word; do pid=$word; done
if [ "$pid" = starting ]; then
  pid=; i=0
  while [ $i -lt 60 ] && [ ! -s "$file" ]; do sleep 0.05; i=$((i+1)); done
  [ -s "$file" ] && read -r pid < "$file"
fi
case $pid in ''|0*|1|*[!0-9]*) ;; *)
  if kill -CONT "$pid" 2>/dev/null; then
    pkill -CONT -P "$pid" 2>/dev/null # paused children; without pkill the server kills them after 5 s
    kill -QUIT "$pid" 2>/dev/null
    i=0; while [ $i -lt 400 ] && [ -e "$file" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.02; i=$((i+1)); done
    [ -e "$file" ] && kill -KILL "$pid" 2>/dev/null
  fi ;;
esac
i=0; while [ $i -lt 50 ] && ! rm -rf "$home" 2>/dev/null; do sleep 0.1; i=$((i+1)); done
`

// guard is the running guard process.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File // its closing, by us or by our death, makes the guard act
}

// startGuard runs under our own account, not the server's: it removes a folder that is ours.
func startGuard(home string) (*guard, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer pr.Close()
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", home)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.Stdin = pr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what is sent to our group is not for the guard
	if err := cmd.Start(); err != nil {
		pw.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guard{cmd: cmd, pipe: pw}, nil
}

func (g *guard) tell(word string) error {
	_, err := io.WriteString(g.pipe, word+"\n")
	if err != nil {
		return fmt.Errorf("tell the guard: %w", err)
	}
	return nil
}

func (g *guard) starting() error       { return g.tell("starting") }
func (g *guard) started(pid int) error { return g.tell(strconv.Itoa(pid)) }
func (g *guard) none() error           { return g.tell("0") }

// finish makes the guard remove the home, and returns when it has.
func (g *guard) finish(home string) error {
	g.pipe.Close()
	werr := g.cmd.Wait()
	if _, err := os.Lstat(home); err == nil {
		return fmt.Errorf("remove %s: the guard ended with %v and left it", filepath.Clean(home), werr)
	}
	return nil
}
