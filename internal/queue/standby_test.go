package queue_test

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"notifyworker/internal/embedded"
	"notifyworker/internal/pgtest"
	"notifyworker/internal/queue"
	"notifyworker/migrations"
	"notifyworker/triggers"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

func TestPressureNamesAStandbyThatPinsVacuum(t *testing.T) {
	server := pgtest.Server(t, embedded.Config{})
	conn, err := pgx.Connect(t.Context(), server.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // nothing hangs on it
	if _, err := migrations.Up(t.Context(), conn, migrations.Options{Triggers: triggers.Files}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_create_physical_replication_slot('far_away')"); err != nil {
		t.Fatal(err)
	}
	s, err := queue.New(queue.Config{DB: conn, WorkerID: workerA})
	if err != nil {
		t.Fatal(err)
	}
	// until waits for the server to have taken in what the standby told it, or that it has gone.
	until := func(wanted func(queue.Snapshot) bool) {
		t.Helper()
		var got queue.Snapshot
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			p, err := s.Pressure(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got = p.Oldest; wanted(got) {
				return
			}
		}
		t.Errorf("the oldest snapshot is %+v", got)
	}
	pid, leave := standby(t, server, conn, "")
	until(func(o queue.Snapshot) bool {
		return o.PID == pid && o.Application == "a_standby" && o.State == "standby" && o.Horizon != "" && o.Age < 0
	})
	leave()
	until(func(o queue.Snapshot) bool { return o.PID != pid })
	pid, leave = standby(t, server, conn, "far_away")
	until(func(o queue.Snapshot) bool {
		return o.PID == pid && o.Application == "far_away" && o.State == "replication slot"
	})
	leave()
	until(func(o queue.Snapshot) bool {
		return o.PID == 0 && o.Application == "far_away" && o.State == "replication slot"
	})
}

// standby connects as one would and tells the server which rows it still needs: those of now.
func standby(t *testing.T, server *embedded.Server, conn *pgx.Conn, slot string) (pid int, leave func()) {
	t.Helper()
	cfg, err := pgconn.ParseConfig(server.SocketURL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["replication"], cfg.RuntimeParams["application_name"] = "true", "a_standby"
	c, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var lsn, xmin string
	if err := conn.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text, pg_current_xact_id()::xid::text").Scan(&lsn, &xmin); err != nil {
		t.Fatal(err)
	}
	start := "START_REPLICATION "
	if slot != "" {
		start += "SLOT " + slot + " "
	}
	c.Frontend().SendQuery(&pgproto3.Query{String: start + "PHYSICAL " + lsn})
	if err := c.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	for streaming := false; !streaming; {
		m, err := c.ReceiveMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			streaming = true
		case *pgproto3.ErrorResponse:
			t.Fatal(pgconn.ErrorResponseToPgError(m))
		}
	}
	x, err := strconv.ParseUint(xmin, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	feedback := make([]byte, 1+8+4*4) // 'h', clock, xmin and its epoch, xmin of catalogs and its epoch
	feedback[0] = 'h'
	binary.BigEndian.PutUint32(feedback[9:], uint32(x))
	c.Frontend().Send(&pgproto3.CopyData{Data: feedback})
	if err := c.Frontend().Flush(); err != nil {
		t.Fatal(err)
	}
	return int(c.PID()), func() {
		ctx, done := context.WithCancel(t.Context())
		done()       // it streams: there is nothing to say goodbye to
		c.Close(ctx) //nolint:errcheck // the socket is closed all the same
	}
}
