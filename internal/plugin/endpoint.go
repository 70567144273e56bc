package plugin

import (
	"errors"
	"fmt"
	"strings"
)

// MaxSocketPath is the longest path a UNIX socket can have, in bytes.
const MaxSocketPath = 107

// ErrEndpoint is wrapped by every error that a malformed endpoint causes.
var ErrEndpoint = errors.New("invalid endpoint")

// ParseEndpoint returns the socket path of unix:///absolute/path.sock, the one
// form that the specifications allow (COSI-142, COSI-167 to COSI-169).
// gRPC's own spelling unix:/absolute/path.sock is understood too. The path is
// taken literally: nothing in it is unescaped or cleaned.
func ParseEndpoint(endpoint string) (path string, err error) {
	fail := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("%w %q: %s; want unix:///absolute/path.sock", ErrEndpoint, short(endpoint), fmt.Sprintf(format, args...))
	}
	if endpoint == "" {
		return fail("it is empty")
	}
	path, ok := strings.CutPrefix(endpoint, "unix:")
	if !ok {
		return fail("only UNIX sockets are allowed")
	}
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		path = rest
	}
	switch {
	case !strings.HasPrefix(path, "/"):
		return fail("the path is not absolute")
	case strings.HasPrefix(path, "//"):
		return fail("the path begins with two slashes")
	case !strings.HasSuffix(path, ".sock"):
		return fail("the path does not end with .sock")
	case strings.IndexFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0:
		return fail("the path holds a control character")
	case len(path) > MaxSocketPath:
		return fail("the path has %d bytes, more than the %d of a socket", len(path), MaxSocketPath)
	}
	return path, nil
}
