package lategc

import (
	"runtime/debug"
	"testing"
)

// The collector is off from the start, and on again when told to be.
func TestResume(t *testing.T) {
	if now := debug.SetGCPercent(-1); now != -1 {
		t.Errorf("GOGC is %d at the start", now)
	}
	Resume()
	if now := debug.SetGCPercent(percent); now != percent || percent == -1 {
		t.Errorf("GOGC is %d, want %d", now, percent)
	}
}
