// Package e2e tests the program that people run: the built binary, its daemon
// and its driver as processes of their own, with real clients, a real container
// runtime and real faults.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

// The programs, built once for a run of the tests.
var (
	bin      string // a directory of their own, seen by everybody
	fairlead string
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == vendorArg {
		os.Exit(vendorMain(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "fl-bin"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(bin) }()
	if err := os.Chmod(bin, 0o755); err != nil { // for other users
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if fairlead, err = build("fairlead", "../../cmd/fairlead"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes the same static program that "make build" makes.
func build(name, pkg string) (string, error) {
	path := filepath.Join(bin, name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("build %s: %s", name, out), err)
	}
	return path, nil
}

// s3Program is testdata/s3, built when first needed.
var s3Program = sync.OnceValues(func() (string, error) { return build("s3", "./testdata/s3") })

// needs skips a test whose program is missing; with CI=true it fails.
func needs(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			testenv.Lacksf(t, "%s is not installed (make prerequisites)", p)
		}
	}
}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root")
	}
}
