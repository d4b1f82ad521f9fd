package integration

import (
	"fmt"
	"os"
	"testing"
)

// TestMain tells how many schedules were played.
func TestMain(m *testing.M) {
	code := m.Run()
	if n := schedules.Load(); n > 0 {
		fmt.Printf("integration: %d schedules were played\n", n)
	}
	os.Exit(code)
}
