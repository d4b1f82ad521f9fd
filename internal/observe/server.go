package observe

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	addressAgain  = 5 * time.Second // between tries of an address that somebody else has
	lastAnswers   = time.Second     // for requests under way at the end
	maxHeaderSize = 16 << 10
)

// CheckAddr says what is wrong with an address to serve on. A host must be named, since what is shown here is for the
// operators of this machine: whoever wants all the world to see it says so.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is no address: give host:port, such as 127.0.0.1:9787", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q has no port number: give host:port, such as 127.0.0.1:9787", addr)
	}
	if strings.TrimSpace(host) == "" {
		return fmt.Errorf("%q names no host: give 127.0.0.1:%s for this machine alone, or 0.0.0.0:%s to be reached from others", addr, port, port)
	}
	return nil
}

// Run serves until ctx ends. While another process has the address, as a second worker on a machine may, it says so and tries
// again. It returns an error when the address can't be had for another reason.
func (o *Observer) Run(ctx context.Context) error {
	ln, err := o.listen(ctx)
	if err != nil || ln == nil {
		return err
	}
	srv := &http.Server{
		Handler:           o.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxHeaderSize,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:          stdlog.New(logLines{o}, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	o.cfg.Log.Info().Str("url", "http://"+ln.Addr().String()).Msg("serving /livez, /readyz and /metrics")
	select {
	case err := <-ended:
		return fmt.Errorf("observe: serve on %s: %w", o.cfg.Addr, err)
	case <-ctx.Done():
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer done()
	if err := srv.Shutdown(last); err != nil {
		srv.Close() //nolint:errcheck // what hangs is cut off
	}
	<-ended
	return nil
}

// listen returns nil when ctx ended first.
func (o *Observer) listen(ctx context.Context) (net.Listener, error) {
	for told := false; ; told = true {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.cfg.Addr)
		switch {
		case ctx.Err() != nil:
			if err == nil {
				ln.Close() //nolint:errcheck // nobody has connected
			}
			return nil, nil
		case err == nil:
			return ln, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, fmt.Errorf("observe: serve on %s: %w", o.cfg.Addr, err)
		case !told:
			o.cfg.Log.Warn().Str("address", o.cfg.Addr).Msg("another process has the address: going on without /livez, /readyz and /metrics, and trying again; give this worker another one")
		}
		t := time.NewTimer(addressAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// logLines takes what net/http has to complain of: broken clients, so nothing that anybody acts on.
type logLines struct{ o *Observer }

func (l logLines) Write(b []byte) (int, error) {
	l.o.cfg.Log.Debug().Str("said", strings.TrimSpace(string(b))).Msg("http server")
	return len(b), nil
}
