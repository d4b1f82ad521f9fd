package bench

import "syscall"

// Numbers of file systems that are in memory, as statfs(2) gives them.
const (
	tmpfsMagic = 0x01021994
	ramfsMagic = 0x858458f6
)

// inMemory says whether a folder's files are, so that a sync costs nothing; false where that can't be told.
func inMemory(folder string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return false
	}
	kind := uint32(fs.Type) //nolint:gosec // the numbers are of 32 bits, whatever the field's type
	return kind == tmpfsMagic || kind == ramfsMagic
}
