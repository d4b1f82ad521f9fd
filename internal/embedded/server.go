package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Server is a PostgreSQL that Start has started. Its methods may be called from several goroutines.
type Server struct {
	Binaries
	cfg      Config
	acct     account
	home     string
	lock     *os.File // of the home: tells sweeps that we live
	inUse    *os.File // of the package: tells prunes that it is used; nil for other binaries
	guard    *guard
	port     int
	hold     net.Listener // of the port; nil for one that was asked for
	password string

	mu      sync.Mutex
	pid     int // of the postmaster; 0 while it is halted
	paused  bool
	stopped bool
}

// Start finds binaries, makes a data folder and starts a server, which accepts connections when Start returns.
// Keep the Server until Stop: one that nothing refers to any more is ended, as if the caller had died.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	s := &Server{cfg: cfg, port: 5432, password: rand.Text()}
	if s.acct, err = pickAccount(); err != nil {
		return nil, err
	}
	if s.Binaries, err = find(ctx, s.acct, cfg); err != nil {
		return nil, err
	}
	s.inUse = s.use()
	defer func() {
		if err != nil && s.inUse != nil {
			s.inUse.Close()
		}
	}()
	if s.home, s.lock, err = newHome(ctx, s.acct); err != nil {
		return nil, fmt.Errorf("make a folder for the server: %w", err)
	}
	if s.guard, err = startGuard(s.home); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.home), s.lock.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err = s.initData(ctx); err != nil {
		return nil, fmt.Errorf("make a data folder: %w", err)
	}
	if err = s.firstLaunch(ctx); err != nil {
		return nil, err
	}
	if cfg.TCP {
		if err = s.setPassword(ctx); err != nil {
			return nil, fmt.Errorf("set the password: %w", err)
		}
	}
	return s, nil
}

// firstLaunch looks for a free port again when the one found was taken meanwhile: PostgreSQL has no "any port".
func (s *Server) firstLaunch(ctx context.Context) error {
	for try := 0; ; try++ {
		if s.cfg.TCP {
			s.port = s.cfg.Port
			if s.port == 0 {
				err := s.releasePort()
				if err == nil {
					s.port, s.hold, err = freePort()
				}
				if err != nil {
					return err
				}
			}
		}
		err := s.launch(ctx)
		if !errors.Is(err, errPortTaken) || s.cfg.Port != 0 || try == 4 {
			return err
		}
	}
}

func (s *Server) releasePort() (err error) {
	if s.hold != nil {
		err, s.hold = s.hold.Close(), nil
	}
	return err
}

func (s *Server) setPassword(ctx context.Context) error {
	c, err := pgconn.Connect(ctx, s.SocketURL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	// rand.Text is letters and digits.
	return c.Exec(ctx, "ALTER ROLE postgres PASSWORD '"+s.password+"'").Close()
}

// Stop ends the server at once and removes its folder. A second call does nothing.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := s.halt(Immediate)
	err = errors.Join(err, s.guard.finish(s.home), s.lock.Close(), s.releasePort())
	if s.inUse != nil {
		err = errors.Join(err, s.inUse.Close())
	}
	if err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// URL is a connection string for a database: over TCP when the server has it, else over its socket.
func (s *Server) URL(db string) string {
	if !s.cfg.TCP {
		return s.SocketURL(db)
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.password),
		Host: "127.0.0.1:" + strconv.Itoa(s.port), Path: "/" + db, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// SocketURL is a connection string for a database through the Unix socket, which needs no password.
func (s *Server) SocketURL(db string) string {
	return "postgres:///" + url.PathEscape(db) + "?user=postgres&host=" + url.QueryEscape(s.SocketDir()) + "&port=" + strconv.Itoa(s.port)
}

// Password is that of the role postgres, which TCP asks for.
func (s *Server) Password() string { return s.password }

// Port is that of TCP, and part of the socket's name.
func (s *Server) Port() int { return s.port }

// SocketDir is the folder of the Unix socket.
func (s *Server) SocketDir() string { return filepath.Join(s.home, sockName) }

// DataDir is the server's data folder, thrown away by Stop.
func (s *Server) DataDir() string { return s.dataDir() }

func (s *Server) dataDir() string { return filepath.Join(s.home, dataName) }

// Describe says in one line what runs, from where, and how safe its data is.
func (s *Server) Describe() string {
	from := map[string]string{
		"folder": "the folder that was asked for", "cache": "the cached package", choiceNPM: "a package fetched just now", choiceSystem: "this machine's installation",
	}[s.Source]
	as, at, how := "", "socket "+s.SocketDir(), "fast settings (no fsync), for tests"
	if s.acct.drop {
		as = ", run as " + s.acct.name
	}
	if s.cfg.TCP {
		at = "127.0.0.1:" + strconv.Itoa(s.port)
	}
	if s.cfg.Durable {
		how = "durable settings (fsync on)"
	}
	return fmt.Sprintf("PostgreSQL %s from %s (%s)%s, at %s, %s, thrown away at the end", s.Full, from, s.Dir, as, at, how)
}
