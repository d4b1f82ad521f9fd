package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

// maxChannel is the longest name of a channel in bytes: LISTEN cuts a longer one with no more than a notice and never hears.
const maxChannel = 63

// Config is complete when Bell is set and, unless Mode is PollingOnly, Conn and Channel; every other zero value is a working
// default.
type Config struct {
	Bell *Doorbell
	Mode Mode

	Conn    *pgx.ConnConfig // where to connect; copied, given keepalives and, when it has none, an application_name
	Channel string          // where work is announced, at most 63 bytes

	// EchoChannel is this process's own. What arrives there proves that the connection hears. "" switches the check off.
	EchoChannel string
	// SendEcho sends one through the pool. Nil when something else does (a heartbeat) and reports it by Listener.EchoSent.
	SendEcho    func(ctx context.Context, channel, nonce string) error
	EchoEvery   time.Duration // between calls of SendEcho; 0 means 4s
	EchoTimeout time.Duration // an echo that takes longer is overdue; 0 means 2s

	// Seats is the schema whose function take_seat gives out the few seats of those who listen in a large fleet, see
	// Everybody. "": this process always listens.
	Seats string

	// Turn says how long to wait before ringing for what another session announced under a key: 0 for whoever's turn it is
	// among the processes that hear it, a moment for the others. Nil means that it is always this one's.
	Turn func(key string) time.Duration

	// Moved is called when another process says that seats have changed hands (SeatsMoved). It must not block. Nil: nobody cares.
	Moved func()

	// Hands returns who takes what commits hand to this process; it is asked when Run begins. Nil: that a job was handed over is taken
	// for a hint to look.
	Hands func() Hands
	// OpenHands is called with each connection on which LISTEN stands, before the bell rings for it. The connection is the callee's to use
	// in this call, and whenever Hands is called until the next one. Whoever is not sure what an answer belongs to, closes it. Nil: nobody
	// needs it.
	OpenHands func(ctx context.Context, conn *pgx.Conn) error

	PollEvery         time.Duration // the net: how often the bell rings unasked; 0 means 30s, or 1s when PollingOnly
	FallbackPollEvery time.Duration // the same while notifications can't be had, if shorter; 0 means 1s

	Log zerolog.Logger
}

// EchoChannel is the channel on which a process of this id hears itself.
func EchoChannel(id string) string {
	name := "notifyworker_echo_" + id
	return name[:min(len(name), maxChannel)]
}

const (
	defaultEchoEvery   = 4 * time.Second
	defaultEchoTimeout = 2 * time.Second
	defaultPoll        = 30 * time.Second
	defaultFallback    = time.Second
	minPoll            = time.Millisecond

	connectTimeout = 5 * time.Second // for one host: dial, log in; the same again for LISTEN and what belongs to it
)

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	if c.Mode == PollingOnly {
		set(&c.PollEvery, time.Second)
	}
	set(&c.PollEvery, defaultPoll)
	set(&c.FallbackPollEvery, defaultFallback)
	set(&c.EchoEvery, defaultEchoEvery)
	set(&c.EchoTimeout, defaultEchoTimeout)
	if c.Conn != nil {
		c.Conn = hardened(c.Conn)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Bell == nil {
		errs = append(errs, errors.New("a bell is missing: whom should a notification wake?"))
	}
	for name, d := range map[string]time.Duration{
		"poll interval": c.PollEvery, "fallback poll interval": c.FallbackPollEvery,
		"echo interval": c.EchoEvery, "echo timeout": c.EchoTimeout,
	} {
		if d < minPoll {
			errs = append(errs, fmt.Errorf("%s is %v: give at least %v", name, d, minPoll))
		}
	}
	if (c.Hands == nil) != (c.OpenHands == nil) {
		errs = append(errs, errors.New("hands take jobs on a connection that they are lent: give Hands and OpenHands, or neither"))
	}
	if c.Mode == PollingOnly {
		return errors.Join(errs...)
	}
	if c.Conn == nil {
		errs = append(errs, errors.New("a connection's configuration is missing"))
	}
	if err := checkChannel(c.Channel); err != nil {
		errs = append(errs, fmt.Errorf("channel: %w", err))
	}
	if c.EchoChannel != "" {
		if err := checkChannel(c.EchoChannel); err != nil {
			errs = append(errs, fmt.Errorf("echo channel: %w", err))
		}
		if c.EchoChannel == c.Channel {
			errs = append(errs, fmt.Errorf("echo channel %q is the channel of the work too: give it a name of its own", c.Channel))
		}
	} else if c.SendEcho != nil {
		errs = append(errs, errors.New("echo channel is missing: an echo needs one to be sent on"))
	}
	return errors.Join(errs...)
}

func checkChannel(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxChannel:
		return fmt.Errorf("%q has %d bytes: PostgreSQL hears names of at most %d", name, len(name), maxChannel)
	case !utf8.ValidString(name):
		return fmt.Errorf("%q is not UTF-8", name)
	}
	for _, r := range name {
		if r == 0 {
			return fmt.Errorf("%q has a NUL in it", name)
		}
	}
	return nil
}

// hardened copies a configuration and makes the client's end notice within seconds that the other end is gone. The server's
// end is set after the log-in, since a pooler refuses start-up parameters that it does not know.
func hardened(from *pgx.ConnConfig) *pgx.ConnConfig {
	c := from.Copy()
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "notifyworker listen"
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout > connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	d := &net.Dialer{
		Timeout:         c.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3},
	}
	c.DialFunc = d.DialContext
	if c.ValidateConnect == nil && severalServers(c) {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary // a standby refuses LISTEN: try the next
	}
	return c
}

// severalServers says whether the connection string names more than one; a fallback may also be the same one without TLS.
func severalServers(c *pgx.ConnConfig) bool {
	for _, f := range c.Fallbacks {
		if f.Host != c.Host || f.Port != c.Port {
			return true
		}
	}
	return false
}

// sessionSettings are for the listening session alone. The keepalives end the server's side of a connection whose client is
// gone in about 5 s instead of two hours; the first may be missing on a platform, so a refusal is no reason to give up.
var sessionSettings = []string{
	`SELECT set_config('tcp_keepalives_idle', '2', false), set_config('tcp_keepalives_interval', '1', false), set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '5000', false)`,
	`SELECT set_config('idle_session_timeout', '0', false)`, // a listener is idle by profession
}
