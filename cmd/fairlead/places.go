package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The environment variables that stand in for flags.
const (
	envState         = "FAIRLEAD_STATE_DIR"
	envRun           = "FAIRLEAD_RUN_DIR"
	envCDI           = "FAIRLEAD_CDI_DIR"
	envSocket        = "FAIRLEAD_SOCKET"
	envS3Listen      = "FAIRLEAD_S3_LISTEN"
	envS3Cert        = "FAIRLEAD_S3_CERT"
	envS3Key         = "FAIRLEAD_S3_KEY"
	envLog           = "FAIRLEAD_LOG"
	envMetricsListen = "FAIRLEAD_METRICS_LISTEN"
)

// socketName is the daemon's socket below the run directory.
const socketName = "fairlead.sock"

// places are the paths that daemon and client must agree on.
type places struct {
	State, Run, Socket string
	// CDI is empty for a user other than root: runtimes look into root's
	// directories only, so specs are written where --cdi-dir says or nowhere.
	CDI string
}

// findPlaces gives the defaults of that user, as the environment changes them.
func findPlaces(euid int, getenv func(string) string) places {
	p := places{State: "/var/lib/fairlead", Run: "/run/fairlead", CDI: "/var/run/cdi"}
	if euid != 0 {
		p = userPlaces(euid, getenv)
	}
	p.State = or(getenv(envState), p.State)
	p.Run = or(getenv(envRun), p.Run)
	p.CDI = or(getenv(envCDI), p.CDI)
	p.Socket = or(getenv(envSocket), filepath.Join(p.Run, socketName))
	return p
}

// userPlaces follows the XDG base directories. Without XDG_RUNTIME_DIR it takes
// the directory that logind would have named, and if there is none a private
// one among the temporary files, whose owner the daemon checks.
func userPlaces(euid int, getenv func(string) string) places {
	state := or(getenv("XDG_STATE_HOME"), filepath.Join(or(getenv("HOME"), "/"), ".local", "state"))
	runtime := getenv("XDG_RUNTIME_DIR")
	if runtime == "" {
		runtime = fmt.Sprintf("/run/user/%d", euid)
		if fi, err := os.Stat(runtime); err != nil || !fi.IsDir() {
			return places{
				State: filepath.Join(state, "fairlead"),
				Run:   filepath.Join(os.TempDir(), fmt.Sprintf("fairlead-%d", euid)),
			}
		}
	}
	return places{State: filepath.Join(state, "fairlead"), Run: filepath.Join(runtime, "fairlead")}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
