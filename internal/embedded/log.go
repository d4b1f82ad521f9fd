package embedded

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// LogLinePrefix is how each line of the server's log starts: time, [pid], <database>, which is <> for the server's own
// processes.
const LogLinePrefix = "%m [%p] <%d> "

// LogPath is the file of the server's log. Stop removes it.
func (s *Server) LogPath() string { return filepath.Join(s.home, logName) }

// Log is the server's log from its start on, over all restarts.
func (s *Server) Log() (string, error) {
	b, err := os.ReadFile(s.LogPath())
	if err != nil {
		return "", fmt.Errorf("read the server's log: %w", err)
	}
	return string(b), nil
}

// logMark is a place in the log.
type logMark struct {
	file *os.File
	from int64
}

func (s *Server) openLog() (logMark, error) {
	f, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return logMark{}, fmt.Errorf("open the server's log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return logMark{}, fmt.Errorf("open the server's log: %w", err)
	}
	return logMark{f, fi.Size()}, nil
}

// text is what was logged since the mark.
func (m logMark) text() string {
	fi, err := m.file.Stat()
	if err != nil {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(m.file, m.from, fi.Size()-m.from))
	if err != nil {
		return err.Error()
	}
	return string(b)
}
