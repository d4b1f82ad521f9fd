package listen

import (
	"fmt"
	"time"
)

// Mode is how wake-ups are had.
type Mode uint8

// The modes.
const (
	Notify      Mode = iota // by notifications, with slow polling as the net
	PollingOnly             // by polling alone: no listening connection at all
)

// String is the name that logs and metrics use.
func (m Mode) String() string {
	if m == PollingOnly {
		return "poll"
	}
	return "notify"
}

// Hearing is how far notifications can be had right now.
type Hearing uint8

// The ways of hearing.
const (
	Connecting Hearing = iota // no connection: the first one is on its way, or the last one broke
	Listening                 // LISTEN stands, and nothing speaks against it
	Deaf                      // LISTEN was refused, or accepted without anything being heard: State.Reason says why
	Polling                   // not wanted: the mode is PollingOnly
	Reserve                   // enough others listen, or this process does not want to: see Config.Seats
)

var hearingNames = [...]string{"connecting", "listening", "deaf", "polling", "reserve"}

// String is the name that logs and metrics use.
func (h Hearing) String() string {
	if int(h) >= len(hearingNames) {
		return "unknown"
	}
	return hearingNames[h]
}

// State is a snapshot of a Listener. Times are of this process's clock, and zero when the thing has not happened.
type State struct {
	Mode             Mode
	Hearing          Hearing
	Since            time.Time     // Hearing is as it is since then
	Reason           string        // why not Listening; "" while listening
	PollEvery        time.Duration // how often the bell rings unasked right now
	BackendPID       uint32        // of the listening session, 0 when there is none
	Connects         uint64        // connections on which LISTEN stood
	Notifications    uint64        // of any payload
	Malformed        uint64        // those whose payload can't be read: they mean "look at everything"
	Echoes           uint64        // own echoes heard
	Overdue          uint64        // own echoes that did not come back in time
	LastConnect      time.Time
	LastNotification time.Time
	LastEcho         time.Time
}

// String says it in one line for a health page.
func (s State) String() string {
	if s.Hearing == Listening {
		return fmt.Sprintf("listening since %s, looking every %v besides", s.Since.Format(time.RFC3339), s.PollEvery)
	}
	if s.Hearing == Reserve {
		return fmt.Sprintf("in reserve since %s, looking every %v: %s", s.Since.Format(time.RFC3339), s.PollEvery, s.Reason)
	}
	if s.Hearing == Polling {
		return fmt.Sprintf("polling every %v", s.PollEvery)
	}
	return fmt.Sprintf("%s, polling every %v: %s", s.Hearing, s.PollEvery, s.Reason)
}
