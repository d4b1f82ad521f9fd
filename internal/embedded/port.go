package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
)

// Ports are looked for below those that the system gives to whoever asks for any: so nobody has a server's port by the time that
// it comes back from a halt.
const (
	firstPort = 20_000
	lastPort  = 32_767
)

// freePort finds a port for a server, and holds it against other servers of ours, whether it runs or is halted, until hold is
// closed: by a socket on another address of the loopback. hold is nil where there is none but 127.0.0.1.
func freePort() (port int, hold net.Listener, err error) {
	for range 200 {
		port = firstPort + rand.IntN(lastPort-firstPort+1)
		hold, err = net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
		if err != nil && runtime.GOOS == "linux" {
			continue // another's
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, hold, l.Close()
		}
		if hold != nil {
			err = errors.Join(err, hold.Close())
		}
	}
	return 0, nil, fmt.Errorf("find a free port from %d to %d: %w", firstPort, lastPort, err)
}
