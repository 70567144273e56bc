package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/internal/control"
)

// patience is how long anything may take to become ready.
const patience = 2 * time.Minute

// process is a program under test. Where the bench dies, so does it.
type process struct {
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{}
}

func (b *bench) start(env []string, args ...string) (*process, error) {
	cmd := exec.Command(b.program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = b.logs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, began: time.Now(), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end sends a signal and waits for the end.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// until asks until done says so; an end of the process is an error. The pauses
// grow with the time that has passed, since each question costs the program
// some of it: what is measured so is at most 1 ms and 2 % too long.
func (p *process) until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for begin := time.Now(); ; {
		ok, err := done()
		if ok {
			return nil
		}
		last = err
		select {
		case <-p.ended:
			return fmt.Errorf("%s: the program ended: %s", what, p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (%v)", what, ctx.Err(), last)
		case <-time.After(time.Millisecond + time.Since(begin)/50):
		}
	}
}

// daemon is a "fairlead up" with its driver.
type daemon struct {
	*process
	client *control.Client
	socket string
}

// home is where a daemon lives; a second daemon there finds what the first left.
type home struct{ state, run string }

func (b *bench) newHome(name string) home {
	return home{filepath.Join(b.disk, name), filepath.Join(b.memory, name)}
}

// up starts a daemon and waits until it says that all is true, with that many
// claims ready. The second result is the time since the exec, in milliseconds.
func (b *bench) up(ctx context.Context, h home, claims int) (*daemon, float64, error) {
	socket := filepath.Join(h.run, "fairlead.sock")
	_ = os.Remove(socket) // of a daemon that was killed: nothing answers there
	p, err := b.start(nil, "up", "--state", h.state, "--run-dir", h.run, "--cdi-dir", filepath.Join(h.run, "cdi"),
		"--socket", socket, "--s3-listen", "127.0.0.1:0", "--log", "warn")
	if err != nil {
		return nil, 0, err
	}
	d := &daemon{p, control.NewClient(socket), socket}
	err = p.until(ctx, "start the daemon", func() (bool, error) {
		s, err := d.client.Status(ctx)
		return err == nil && s.Ready && s.Claims["Ready"] >= claims, err
	})
	took := milliseconds(time.Since(p.began))
	if err != nil {
		p.end(syscall.SIGKILL)
		return nil, 0, err
	}
	return d, took, nil
}

// command runs the program to its end and throws away what it prints.
func (b *bench) command(ctx context.Context, env []string, args ...string) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fairlead %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return nil
}

// footprint is what the process and its children hold of memory, in MiB: what
// they share counted once (PSS), and as it is usually shown (RSS).
func (p *process) footprint() (pss, rss float64, err error) {
	for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, 0, err
		}
		pss += field(text, "Pss:") / 1024
		rss += field(text, "Rss:") / 1024
	}
	return pss, rss, nil
}

// peak is the largest sum that the resident sets of the process and its
// children can have had, in MiB.
func (p *process) peak() (rss float64) {
	for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			rss += field(text, "VmHWM:") / 1024
		}
	}
	return rss
}

// processor is the processor time that the process and its children have used
// so far, in seconds.
func (p *process) processor() (seconds float64) {
	const ticks = 100 // a second, on every Linux that Go knows
	for _, pid := range append(children(p.cmd.Process.Pid), p.cmd.Process.Pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		// The name, in parentheses, may hold blanks; 11 fields on is utime.
		if fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(fields) > 12 {
			for _, f := range fields[11:13] {
				n, _ := strconv.ParseFloat(f, 64)
				seconds += n / ticks
			}
		}
	}
	return seconds
}

func children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		for f := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// field is the number after a name, as /proc writes it.
func field(text []byte, name string) float64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			n, _ := strconv.ParseFloat(string(bytes.Fields(rest)[0]), 64)
			return n
		}
	}
	return 0
}
