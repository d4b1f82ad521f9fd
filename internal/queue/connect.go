package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// pingTimeout is for the question whether an idle connection still lives, which is asked before it is used: one that fell
// silent must not cost the time-out of the call that it was picked for.
const pingTimeout = time.Second

// sessionSettings are what every session of a worker asks the server for, unless the connection string says otherwise: its
// statements are short, so whatever takes long is stuck; the protocol needs READ COMMITTED whatever the role's default is;
// and the server notices within 5 s that this process is gone from the network, so that its locks end with it.
func sessionSettings() map[string]string {
	return map[string]string{
		"default_transaction_isolation":       "read committed",
		"lock_timeout":                        "5s",
		"statement_timeout":                   "15s",
		"idle_in_transaction_session_timeout": "30s",
		"idle_session_timeout":                "0", // the pool ends what is idle too long, not the server in the midst of a call
		"tcp_keepalives_idle":                 "2",
		"tcp_keepalives_interval":             "1",
		"tcp_keepalives_count":                "3",
		"tcp_user_timeout":                    "5000", // while an answer is under way no keepalives are sent
	}
}

// Harden fills in the settings of a worker's session. It leaves alone what the connection string sets itself, and picks
// the server that accepts writes where several are named.
func Harden(cfg *pgx.ConnConfig, application string) {
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = map[string]string{}
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = application
	}
	for name, value := range sessionSettings() {
		if _, set := cfg.RuntimeParams[name]; !set {
			cfg.RuntimeParams[name] = value
		}
	}
	elsewhere := func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port } // else it is the same server without TLS
	if slices.ContainsFunc(cfg.Fallbacks, elsewhere) && cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
}

// ParseURL reads a connection string for a connection of its own, in whatever form a pool takes it: the pool's parameters, such as
// pool_max_conns, are read and left out, which the server would refuse.
func ParseURL(text string) (*pgx.ConnConfig, error) {
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	return cfg.ConnConfig, nil
}

// OpenPool returns a pool of at most conns hardened connections for the Store, which may lead through a transaction pooler.
// It connects when it is first used, so a server that is down for the moment is no error here.
func OpenPool(ctx context.Context, url, application string, conns int) (*pgxpool.Pool, error) {
	return OpenCountedPool(ctx, url, application, conns, &Sent{})
}

// OpenCountedPool is OpenPool whose statements are counted.
func OpenCountedPool(ctx context.Context, url, application string, conns int, sent *Sent) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	cfg.MaxConns = int32(min(max(conns, 2), 1000))
	cfg.PingTimeout = pingTimeout
	var pooler throughPooler
	Harden(cfg.ConnConfig, application)
	cfg.BeforeConnect = pooler.fit
	sent.byPool(cfg)
	return pgxpool.NewWithConfig(ctx, cfg)
}

// redial drops the pool's connections after an error that says that they are no good: this server doesn't accept writes, and
// after a fail-over another one does; or it doesn't answer, and they may lead into a network that has fallen silent.
func (s *Store) redial(err error) {
	if pool, ok := s.cfg.DB.(interface{ Reset() }); ok && (ReadOnly(err) || errors.Is(err, context.DeadlineExceeded)) {
		pool.Reset()
	}
}
