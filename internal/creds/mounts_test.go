package creds

import (
	"runtime"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"
)

// inPrivateMounts gives the test's thread a mount namespace of its own: what it
// mounts is seen by nobody else and is gone with the thread, which is never
// given back.
func inPrivateMounts(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		testenv.Lacksf(t, "no private mount namespace: %v", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		testenv.Lacksf(t, "no private mount namespace: %v", err)
	}
}
