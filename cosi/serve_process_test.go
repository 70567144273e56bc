package cosi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
)

// processEnv turns this test binary into a plugin; its value is the driver's name.
const processEnv = "TEST_COSI_PLUGIN"

// TestPluginProcess is no test of its own, but the main function of the plugin
// processes that the tests below start.
func TestPluginProcess(t *testing.T) {
	name, ok := os.LookupEnv(processEnv)
	if !ok {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	d := &store{before: func(_ context.Context, req proto.Message) error {
		if r, ok := req.(*cosipb.DriverCreateBucketRequest); ok && r.GetName() == "die" {
			os.Exit(3)
		}
		return nil
	}}
	err := cosi.Serve(ctx, name, d)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(cosi.ExitCode(err))
}

// process is a plugin in a process of its own.
type process struct {
	*exec.Cmd
	stdout *bytes.Buffer
	stderr *lines
}

func start(t testing.TB, name string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(self, "-test.run=^TestPluginProcess$"), stdout: &bytes.Buffer{}, stderr: newLines()}
	p.Stdout, p.Stderr = p.stdout, p.stderr
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "COSI_") && !strings.HasPrefix(e, "FAIRLEAD_") && !strings.HasPrefix(e, "OTEL_") {
			p.Env = append(p.Env, e)
		}
	}
	p.Env = append(append(p.Env, processEnv+"="+name), env...)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

// exit waits for the process and returns its exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { p.Process.Kill() })
	defer timer.Stop()
	if err := p.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

// Req: COSI-142, COSI-167, COSI-169, COSI-179
func TestProcessFailsFast(t *testing.T) {
	file := socket(t)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	live := serve(t, &store{})
	live.log.await(t, "driver serves")
	good := "unix://" + socket(t)
	for _, test := range []struct {
		about, name string
		env         []string
		code        int
		text        string
	}{
		{"no endpoint", driverName, nil, 78, "COSI_ENDPOINT is not set"},
		{"TCP", driverName, []string{"COSI_ENDPOINT=tcp://127.0.0.1:0"}, 78, "only UNIX sockets are allowed"},
		{"no .sock", driverName, []string{"COSI_ENDPOINT=unix:///tmp/cosi"}, 78, "does not end with .sock"},
		{"relative", driverName, []string{"COSI_ENDPOINT=unix://cosi.sock"}, 78, "not absolute"},
		{"too long", driverName, []string{"COSI_ENDPOINT=unix:///" + long(120) + ".sock"}, 78, "more than the 107"},
		{"no directory", driverName, []string{"COSI_ENDPOINT=unix:///nowhere/at/all/cosi.sock"}, 78, "directory is not there"},
		{"file", driverName, []string{"COSI_ENDPOINT=unix://" + file}, 78, "is a regular file, not a socket"},
		{"in use", driverName, []string{"COSI_ENDPOINT=unix://" + live.path}, 69, "another process answers"},
		{"name", "not_a_domain", []string{"COSI_ENDPOINT=" + good}, 78, `driver name "not_a_domain"`},
		{"log level", driverName, []string{"COSI_ENDPOINT=" + good, "FAIRLEAD_LOG=loud"}, 78, `FAIRLEAD_LOG="loud"`},
		{"metrics", driverName, []string{"COSI_ENDPOINT=" + good, "FAIRLEAD_METRICS_LISTEN=nonsense"}, 78, "FAIRLEAD_METRICS_LISTEN"},
		{"traces", driverName, []string{"COSI_ENDPOINT=" + good, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=http/json"}, 78, "http/json"},
	} {
		t.Run(test.about, func(t *testing.T) {
			p := start(t, test.name, test.env...)
			if code := p.exit(t); code != test.code || !strings.Contains(p.stderr.String(), test.text) {
				t.Errorf("exit code %d, %s; want %d, %s", code, p.stderr, test.code, test.text)
			}
			if strings.Count(p.stderr.String(), "\n") != 1 {
				t.Errorf("not one clear line: %s", p.stderr)
			}
		})
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "precious" {
		t.Errorf("the file is %q, %v", raw, err)
	}
}

// Req: COSI-140, COSI-141, COSI-151, COSI-153, COSI-154, COSI-156, COSI-162, COSI-163, COSI-164, COSI-168, COSI-170, COSI-172, DRAFT-039, DRAFT-040
func TestProcessLifeAndDeath(t *testing.T) {
	path := socket(t)
	endpoint := "COSI_ENDPOINT=unix://" + path
	ctx := within(t, 30*time.Second)

	p := start(t, driverName, endpoint, "FAIRLEAD_LOG=debug")
	conn := connect(t, path)
	identity, buckets := cosipb.NewIdentityClient(conn), cosipb.NewProvisionerClient(conn)
	if info := must(identity.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}))(t); info.GetName() != driverName {
		t.Errorf("name %q", info.GetName())
	}
	if entries := must(os.ReadDir(filepath.Dir(path)))(t); len(entries) != 1 {
		t.Errorf("beside the socket there are %v", entries)
	}
	// Killed, it leaves a stale socket, which the next one replaces.
	p.Process.Kill()
	p.exit(t)
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("a killed process leaves no socket: %v", err)
	}
	p = start(t, driverName, endpoint, "FAIRLEAD_LOG=debug")
	must(identity.DriverGetInfo(ctx, &cosipb.DriverGetInfoRequest{}))(t)
	must(buckets.DriverCreateBucket(ctx, createRequest("b")))(t)
	must(buckets.DriverGrantBucketAccess(ctx, grantRequest("b", "app")))(t)

	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays behind: %v", err)
	}
	if p.stdout.Len() != 0 {
		t.Errorf("on standard output: %s", p.stdout)
	}
	if log := p.stderr.String(); !strings.Contains(log, "level=DEBUG msg=call") || strings.Contains(log, secretKey) {
		t.Errorf("on standard error: %s", log)
	}
}

// A driver that dies in the middle of a call takes its process with it; what
// starts next serves the same socket again.
//
// Req: COSI-088, COSI-090
func TestProcessDiesMidCall(t *testing.T) {
	path := socket(t)
	ctx := within(t, 30*time.Second)
	p := start(t, driverName, "COSI_ENDPOINT=unix://"+path)
	buckets := cosipb.NewProvisionerClient(connect(t, path))
	if _, err := buckets.DriverCreateBucket(ctx, createRequest("die")); err == nil {
		t.Error("an answer from a dead driver")
	}
	if code := p.exit(t); code != 3 {
		t.Errorf("exit code %d", code)
	}
	start(t, driverName, "COSI_ENDPOINT=unix://"+path)
	must(buckets.DriverCreateBucket(ctx, createRequest("b")))(t)
}
