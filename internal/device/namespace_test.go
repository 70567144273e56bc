package device

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"
)

// inNamespace names the device that a child of TestWatchInUserNamespace waits for.
const inNamespace = "FAIRLEAD_TEST_AWAIT"

// TestMain lets the test binary be the watcher in another user namespace.
func TestMain(m *testing.M) {
	if node := os.Getenv(inNamespace); node != "" {
		os.Exit(watchFor(node))
	}
	os.Exit(m.Run())
}

// watchFor says when it watches, and ends when the node has come.
func watchFor(node string) int {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	events, err := Host{interval: 5 * time.Millisecond}.Watch(ctx)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for e := range events {
		switch {
		case e.Action == Rescan:
			fmt.Println("watching")
		case e.Action == Add && e.Node == node:
			return 0
		}
	}
	return 1
}

// In a user namespace the socket opens, but the kernel says nothing on it: what
// comes is seen all the same.
func TestWatchInUserNamespace(t *testing.T) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		testenv.Lacks(t, err)
	}
	t.Cleanup(func() { control.Close() })
	n := addLoop(t, control)
	loopControl(t, control, unix.LOOP_CTL_REMOVE, n)

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), inNamespace+"=/dev/loop"+strconv.Itoa(n))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testenv.Lacksf(t, "no user namespaces here: %v", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "watching\n" {
		t.Errorf("the watcher says %q, error %v", line, err)
	}
	loopControl(t, control, unix.LOOP_CTL_ADD, n)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the watcher did not see the device come: %v", err)
	}
}
