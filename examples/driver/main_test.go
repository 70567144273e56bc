package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	conform "github.com/fairlead/fairlead/conform/cosi"
)

// The example is built as a person would build it, runs as a process of its
// own, and is killed in between.
func TestConformance(t *testing.T) {
	dir, err := os.MkdirTemp("", "fl") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(t.TempDir(), "driver")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	endpoint, state := "unix://"+filepath.Join(dir, "cosi.sock"), filepath.Join(t.TempDir(), "state.json")
	var cmd *exec.Cmd
	start := func() error {
		cmd = exec.Command(program)
		cmd.Env = append(os.Environ(), "COSI_ENDPOINT="+endpoint, "EXAMPLE_STATE="+state)
		cmd.Stderr = t.Output()
		return cmd.Start()
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill() })
	conform.Run(t, conform.Config{
		Endpoint:                    endpoint,
		OtherBucketParameters:       map[string]string{"tier": "archive"},
		MalformedBucketParameters:   map[string]string{"colour": "blue"},
		UnsupportedBucketParameters: map[string]string{"tier": "tape"},
		BadBucketNames:              []string{"../x", "UPPER", "a"},
		OtherAccessParameters:       map[string]string{"mode": "ReadOnly"},
		Restart: func(context.Context) error {
			kill()
			return start()
		},
		DedicatedDir: true,
	})
}
