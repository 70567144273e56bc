// Package supervise keeps child processes running: it starts them, restarts
// them with a back-off, keeps the end of what they print, and takes them down
// with itself, even when it is killed.
package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The pauses between restarts: doubled from the least to the most, and back to
// the least once a child has run for as long as calm.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 10 * time.Second
	calm       = 30 * time.Second
)

// logSize is how much of a child's output is kept, in bytes.
const logSize = 64 << 10

// Command says what to run.
type Command struct {
	Name string   // for the log
	Argv []string // Argv[0] is looked up in PATH
	Env  []string // the whole environment, KEY=VALUE
	Dir  string   // working directory; empty is the daemon's
	// Prepare is called before each start, which its error prevents; nil for
	// nothing.
	Prepare func() error
	// Grace is how long a child may take to stop once asked (SIGTERM) before
	// it is killed; zero is 5 seconds.
	Grace time.Duration
	// Output gets each line that the child prints, in addition to the log
	// kept here; nil for nowhere.
	Output io.Writer
}

// State is how a child is.
type State struct {
	PID      int    // 0 while none runs
	Restarts int    // starts after the first
	Message  string // why none runs
}

// Child is one supervised process. Stop ends it.
type Child struct {
	cmd    Command
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}
	tail   tail

	mu    sync.Mutex
	state State
}

// Start begins to keep the command running. It returns at once; a command that
// cannot be started is tried again like one that ended.
func Start(log *slog.Logger, cmd Command) *Child {
	if cmd.Grace == 0 {
		cmd.Grace = 5 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Child{cmd: cmd, log: log.With("child", cmd.Name), cancel: cancel, done: make(chan struct{})}
	go c.keep(ctx)
	return c
}

// Stop ends the child and waits until it, and all that it started in its
// process group, is gone.
func (c *Child) Stop() {
	c.cancel()
	<-c.done
}

// State says how the child is now.
func (c *Child) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Log is the end of what the child has printed, over all its restarts.
func (c *Child) Log() string { return c.tail.String() }

// keep runs the command again and again. It stays on one thread, because the
// kernel ties the death signal of a child to the thread that started it.
func (c *Child) keep(ctx context.Context) {
	defer close(c.done)
	runtime.LockOSThread()
	pause := leastPause
	for {
		began := time.Now()
		err := c.run(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= calm {
			pause = leastPause
		}
		c.set(func(s *State) { s.PID, s.Message = 0, err.Error(); s.Restarts++ })
		c.log.Warn("child ended; it will be started again", "reason", err, "in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// run starts the command once and waits for its end, which is always an error.
func (c *Child) run(ctx context.Context) error {
	if c.cmd.Prepare != nil {
		if err := c.cmd.Prepare(); err != nil {
			return err
		}
	}
	cmd := exec.Command(c.cmd.Argv[0], c.cmd.Argv[1:]...)
	cmd.Env, cmd.Dir = c.cmd.Env, c.cmd.Dir
	out := io.Writer(&c.tail)
	if c.cmd.Output != nil {
		out = io.MultiWriter(&c.tail, c.cmd.Output)
	}
	cmd.Stdout, cmd.Stderr = out, out
	// A grandchild that holds the pipe open must not keep us from noticing
	// that the child is gone.
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:   true,            // so that a stop reaches what it started
		Pdeathsig: syscall.SIGKILL, // so that it does not outlive us
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %q: %w", c.cmd.Argv[0], err)
	}
	pid := cmd.Process.Pid
	c.set(func(s *State) { s.PID, s.Message = pid, "" })
	c.log.Info("child started", "pid", pid)

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = syscall.Kill(-pid, syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(c.cmd.Grace):
			c.log.Warn("child did not stop in time; it is killed", "grace", c.cmd.Grace)
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			err = <-ended
		}
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // what it left behind in its group
	return c.explain(err)
}

// explain says how the child ended, with its last line.
func (c *Child) explain(err error) error {
	why := "exited with status 0"
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		why = err.Error()
	}
	if last := c.tail.lastLine(); last != "" {
		return fmt.Errorf("%s: %s", why, last)
	}
	return errors.New(why)
}

func (c *Child) set(f func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

// Environ is the daemon's own environment without what is meant for the daemon
// alone and would mislead a child, such as its own settings, plus set.
func Environ(set ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID", "COSI_ENDPOINT", "CSI_ENDPOINT":
			continue
		}
		if !strings.HasPrefix(name, "FAIRLEAD_") {
			env = append(env, kv)
		}
	}
	return append(env, set...)
}

// tail keeps the last logSize bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - logSize; over > logSize {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-logSize):])
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.buf)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
