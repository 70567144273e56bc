package cosi_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	conform "github.com/fairlead/fairlead/conform/cosi"
	"github.com/fairlead/fairlead/conform/cosi/s3probe"
	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/internal/driver/objects"
	"github.com/fairlead/fairlead/internal/objectstore"
)

// stateEnv makes this test binary the driver, with its state in that
// directory: a process of its own, which can be killed.
const stateEnv = "FAIRLEAD_TEST_DRIVER_STATE"

func TestMain(m *testing.M) {
	if root := os.Getenv(stateEnv); root != "" {
		if err := beDriver(root); err != nil {
			fmt.Fprintln(os.Stderr, "driver:", err)
			os.Exit(cosi.ExitCode(err))
		}
		return
	}
	os.Exit(m.Run())
}

func beDriver(root string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		// The test holds the other end: a driver does not outlive it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	store, err := objectstore.Open(ctx, objectstore.Config{Root: root, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer store.Close()
	return cosi.Serve(ctx, objects.Name, objects.New(store))
}

// driver is the driver's process, and what it is started with.
type driver struct {
	t               *testing.T
	state, endpoint string
	cmd             *exec.Cmd
}

func (d *driver) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	d.cmd = exec.Command(self)
	d.cmd.Env = append(os.Environ(), stateEnv+"="+d.state, cosi.EndpointEnv+"="+d.endpoint)
	d.cmd.Stdout, d.cmd.Stderr = d.t.Output(), d.t.Output()
	if _, err := d.cmd.StdinPipe(); err != nil { // see beDriver
		return err
	}
	return d.cmd.Start()
}

// kill ends the process as kill -9 does.
func (d *driver) kill() {
	_ = d.cmd.Process.Kill()
	_ = d.cmd.Wait()
}

// Our own driver, whole: its process, its socket, its store, real keys and a
// real S3 client, and kill -9 in between.
func TestObjects(t *testing.T) {
	dir, err := os.MkdirTemp("", "fl") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &driver{t: t, state: filepath.Join(t.TempDir(), "state"), endpoint: "unix://" + filepath.Join(dir, "cosi.sock")}
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	conform.Run(t, conform.Config{
		Endpoint:                    d.endpoint,
		OtherBucketParameters:       map[string]string{"versioning": "true"},
		MalformedBucketParameters:   map[string]string{"quota": "ten"},
		UnsupportedBucketParameters: map[string]string{"region": "eu-moon-1"},
		BadBucketNames:              []string{"../x", "a", "UPPER", "with space", "a..b", "192.168.0.1", "-dash", "xn--a"},
		OtherAccessParameters:       map[string]string{"mode": "ReadOnly"},
		Probe:                       s3probe.Probe{},
		Restart: func(context.Context) error {
			d.kill()
			return d.start()
		},
		DedicatedDir: true,
		Draft:        true,
	})
}
