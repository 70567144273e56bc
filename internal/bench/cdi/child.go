package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fairlead/fairlead/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// task is what a child process measures: each in a process of its own, so that
// no garbage of one is collected in another's time.
type task struct {
	Library string
	What    string // load, resolve, inject, change, memory or command
	Dir     string
	State   string // file of the persisted index
	Specs   int    // how many there are
	Count   int    // devices to inject, or files to change
	From    int    // the spec whose devices are injected first
	Heap    int    // bytes that the process holds besides
	Config  string // of command
}

// figures are what one task took.
type figures struct {
	CPU    time.Duration
	Wall   time.Duration
	Allocs uint64
	Peak   uint64        // bytes of memory, at most
	Stall  time.Duration // the longest that a lookup took
}

// child runs the task of its argument and writes its figures to stdout.
func child(arg string) error {
	var t task
	if err := json.Unmarshal([]byte(arg), &t); err != nil {
		return err
	}
	run, ok := map[string]func(task) (figures, error){
		"load": measureLoad, "resolve": measureResolve, "inject": measureInject,
		"change": measureChange, "memory": measureMemory,
	}[t.What]
	if t.What == "command" {
		return command(t)
	}
	if !ok {
		return fmt.Errorf("there is no task %q", t.What)
	}
	f, err := run(t)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// measure takes the figures of one call, and of the process while it runs.
func measure(call func() error) (figures, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, begin := cpuTime(), time.Now()
	err := call()
	f := figures{CPU: cpuTime() - cpu, Wall: time.Since(begin)}
	runtime.ReadMemStats(&after)
	f.Allocs = after.Mallocs - before.Mallocs
	return f, err
}

// cpuTime is the processor time of this process, which other load on the machine
// changes little.
func cpuTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func measureLoad(t task) (figures, error) {
	var l library
	f, err := measure(func() (err error) {
		l, err = load(t.Library, mode{dir: t.Dir})
		return err
	})
	if err != nil {
		return f, err
	}
	return f, check(l, t.Specs)
}

// measureResolve is a process that begins, and finds one device.
func measureResolve(t task) (figures, error) {
	return measure(func() error {
		l, err := load(t.Library, mode{dir: t.Dir, state: t.State})
		if err == nil && !l.has(device(7)) {
			err = errors.New("the device is not there")
		}
		return err
	})
}

// measureInject injects into one new container after the other. The containers
// are made before: they cost both libraries the same.
func measureInject(t task) (figures, error) {
	l, err := load(t.Library, mode{dir: t.Dir})
	if err != nil {
		return figures{}, err
	}
	var devices []string
	for i := range t.Count {
		devices = append(devices, device(t.From*devicesPerSpec+i))
	}
	heap := make([]byte, t.Heap)
	defer runtime.KeepAlive(heap)
	runtime.GC()
	const rounds, warm, each = 50, 50, 100
	var sum figures
	var walls []time.Duration
	containers := make([]*oci.Spec, each)
	for round := range rounds + warm {
		for i := range containers {
			containers[i] = container()
		}
		f, err := measure(func() error {
			for i, c := range containers {
				containers[i] = nil // garbage, once it is injected into
				if err := l.inject(c, devices...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return figures{}, err
		}
		if round >= warm {
			sum.CPU += f.CPU / rounds / each
			sum.Allocs += f.Allocs
			walls = append(walls, f.Wall/each)
		}
	}
	sum.Allocs /= rounds * each
	slices.Sort(walls)
	sum.Wall = walls[rounds/2]
	return sum, nil
}

// measureChange replaces files below a library that keeps up to date, and looks
// up a device all the while. It is over when all changes are seen.
func measureChange(t task) (figures, error) {
	l, err := load(t.Library, mode{dir: t.Dir, watch: true})
	if err != nil {
		return figures{}, err
	}
	if _, err := replace(l, t.Dir, 1, "warm-up"); err != nil { // now it surely watches
		return figures{}, err
	}
	time.Sleep(300 * time.Millisecond) // and is at rest
	runtime.GC()
	var stall time.Duration
	f, err := measure(func() (err error) {
		stall, err = replace(l, t.Dir, t.Count, "changed")
		return err
	})
	f.Stall = stall
	return f, errors.Join(err, clean(t.Dir, max(t.Count, 1)), check(l, t.Specs))
}

// replace gives the first count specs one more device each and returns when all
// of these are seen, with the longest time that a lookup meanwhile took.
func replace(l library, dir string, count int, marker string) (stall time.Duration, err error) {
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() { stall = lookUp(l, done) })
	for i := range count {
		if err = cdi.Write(dir, specFile(i), largeSpec(i, marker), cdi.NoSync); err != nil {
			break
		}
	}
	deadline := time.Now().Add(5 * time.Minute)
	for i := 0; i < count && err == nil; {
		if l.has(kind(i) + "=" + marker) {
			i++
			continue
		}
		time.Sleep(200 * time.Microsecond)
		if time.Now().After(deadline) {
			err = fmt.Errorf("the change of %s was not seen", specFile(i))
		}
	}
	close(done)
	looking.Wait()
	return stall, err
}

// lookUp finds a device every millisecond and returns how long that took at most.
func lookUp(l library, done chan struct{}) (longest time.Duration) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		begin := time.Now()
		l.has(device(2500))
		longest = max(longest, time.Since(begin))
		select {
		case <-done:
			return longest
		case <-tick.C:
		}
	}
}

// clean makes the changed specs what they were.
func clean(dir string, count int) (err error) {
	for i := range count {
		err = errors.Join(err, cdi.Write(dir, specFile(i), largeSpec(i, ""), cdi.NoSync))
	}
	return err
}

// measureMemory loads the specs and reports the most memory that the process
// ever had, all of its own included.
func measureMemory(t task) (figures, error) {
	l, err := load(t.Library, mode{dir: t.Dir})
	if err != nil {
		return figures{}, err
	}
	if err := check(l, t.Specs); err != nil {
		return figures{}, err
	}
	peak, err := peakMemory()
	return figures{Peak: peak}, err
}

func peakMemory() (uint64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(text), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "VmHWM:") })
	if i < 0 {
		return 0, errors.New("the kernel does not say how much memory a process has")
	}
	kib, err := strconv.ParseUint(strings.Fields(lines[i])[1], 10, 64)
	return kib << 10, err
}

// command is what a small program around the library does, from start to end.
func command(t task) error {
	text, err := os.ReadFile(t.Config)
	if err != nil {
		return err
	}
	c := container()
	if err := json.Unmarshal(text, c); err != nil {
		return err
	}
	l, err := load(t.Library, mode{dir: filepath.Clean(t.Dir)})
	if err != nil {
		return err
	}
	if err := l.inject(c, device(7)); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}
