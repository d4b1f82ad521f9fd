package embedded

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// MinMajor is the oldest PostgreSQL that notifyworker runs on.
const MinMajor = 15

// Config says what to start. Its zero value is a fast, volatile server for tests, of the newest major that is known.
type Config struct {
	// Choice of binaries: "" or "auto" for an installed server, else the package, from the cache or fetched; "npm" for the
	// package only; "system" for installed servers only; a major such as "15"; or the folder that holds postgres.
	Choice string
	Major  int  // only this major; 0 means any from MinMajor on
	TCP    bool // listen on 127.0.0.1 too, with a password
	Port   int  // with TCP; 0 finds a free one
	// Durable survives a power cut: fsync and full_page_writes stay on. For benchmarks, demos and crash tests.
	Durable  bool
	Settings map[string]string // postgresql.conf settings, over all that this package sets
	Log      func(string)      // is told what takes seconds, such as fetching the package; nil means nobody
}

// kinds of Choice that are no folder.
const (
	choiceAuto   = "auto"
	choiceNPM    = "npm"
	choiceSystem = "system"
)

// wanted is Choice and Major as one: kind is auto, npm, system or "" with dir set.
type wanted struct {
	kind  string
	dir   string
	major int // 0 for any
}

func (c Config) log(text string) {
	if c.Log != nil {
		c.Log(text)
	}
}

func (c Config) wanted() (wanted, error) {
	w := wanted{kind: c.Choice, major: c.Major}
	switch c.Choice {
	case "":
		w.kind = choiceAuto
	case choiceAuto, choiceNPM, choiceSystem:
	default:
		if n, err := strconv.Atoi(c.Choice); err == nil {
			if c.Major != 0 && c.Major != n {
				return wanted{}, fmt.Errorf("choice %q and major %d contradict each other", c.Choice, c.Major)
			}
			w.kind, w.major = choiceAuto, n
			break
		}
		if !filepath.IsAbs(c.Choice) {
			return wanted{}, fmt.Errorf("choice %q is none of auto, npm, system, a major such as 15, or an absolute folder", c.Choice)
		}
		w.kind, w.dir = "", c.Choice
	}
	if w.major != 0 && w.major < MinMajor {
		return wanted{}, fmt.Errorf("PostgreSQL %d was asked for; notifyworker needs %d or newer", w.major, MinMajor)
	}
	return w, nil
}
