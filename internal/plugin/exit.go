package plugin

import (
	"errors"
	"io/fs"
)

// Exit codes of a driver process, as sysexits.h names them (COSI-179).
const (
	ExitUsage       = 64 // wrong command line
	ExitUnavailable = 69 // another process serves the endpoint
	ExitSoftware    = 70 // anything else
	ExitNoPerm      = 77 // the operating system refused
	ExitConfig      = 78 // an environment variable, the driver's name or the socket's path is wrong
)

// ErrConfig is wrapped by every error that only a changed configuration mends.
var ErrConfig = errors.New("misconfigured")

// ExitCode returns the process exit code for what a server ended with; 0 for nil.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInUse):
		return ExitUnavailable
	case errors.Is(err, ErrConfig), errors.Is(err, ErrEndpoint):
		return ExitConfig
	case errors.Is(err, fs.ErrPermission):
		return ExitNoPerm
	default:
		return ExitSoftware
	}
}
