package listen_test

import (
	"io/fs"
	"os"
	"syscall"
)

// chownLike gives a file the owner of another: as root, the server runs under an account of its own.
func chownLike(path string, like fs.FileInfo) error {
	st, known := like.Sys().(*syscall.Stat_t)
	if !known {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
