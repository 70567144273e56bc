package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

func measureLoads(ctx context.Context, b *bench) error {
	for _, n := range []int{1000, 10000} {
		t := task{What: "load", Dir: b.specs(n), Specs: n}
		our, their, err := b.both(ctx, t)
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("load %d specs, CPU", n), "ms", milliseconds(our.CPU), milliseconds(their.CPU), fraction(8))
		b.add(fmt.Sprintf("load %d specs, allocations", n), "", float64(our.Allocs), float64(their.Allocs), fraction(20))
		b.add(fmt.Sprintf("load %d specs, wall", n), "ms", milliseconds(our.Wall), milliseconds(their.Wall))
		t.What, t.State, t.Library = "resolve", filepath.Join(b.dir, fmt.Sprintf("state-%d", n)), ours
		if _, err := b.child(ctx, t); err != nil { // writes the persisted index
			return err
		}
		if our, err = b.child(ctx, t); err != nil {
			return err
		}
		b.add(fmt.Sprintf("first device of %d specs, persisted index, CPU", n), "ms", milliseconds(our.CPU), milliseconds(their.CPU), fraction(100))
	}
	return nil
}

// measureInjects measures in a process that holds nothing but the specs, and in
// one that holds as much as a small runtime. In the first, Go collects garbage
// whenever the heap has grown to 4 MiB, and more often than beside upstream's
// 15 MiB of parsed specs; in the second as often for either.
func measureInjects(ctx context.Context, b *bench) error {
	const heap = 16 << 20
	for _, n := range []int{1, 8, 64} {
		t := task{What: "inject", Dir: b.specs(1000), Specs: 1000, Count: n}
		our, their, err := b.both(ctx, t)
		if err != nil {
			return err
		}
		b.add(fmt.Sprintf("inject %d devices, wall", n), "µs", microseconds(our.Wall), microseconds(their.Wall), fraction(8))
		b.add(fmt.Sprintf("inject %d devices, CPU", n), "µs", microseconds(our.CPU), microseconds(their.CPU))
		b.add(fmt.Sprintf("inject %d devices, allocations", n), "", float64(our.Allocs), float64(their.Allocs))
		t.Heap = heap
		if our, their, err = b.both(ctx, t); err != nil {
			return err
		}
		b.add(fmt.Sprintf("inject %d devices beside a heap of %d MiB, wall", n, heap>>20), "µs", microseconds(our.Wall), microseconds(their.Wall))
		b.add(fmt.Sprintf("inject %d devices beside a heap of %d MiB, CPU", n, heap>>20), "µs", microseconds(our.CPU), microseconds(their.CPU))
	}
	our, their, err := b.both(ctx, task{What: "inject", Dir: b.specs(1000), Specs: 1000, Count: 1, From: fromHost})
	if err != nil {
		return err
	}
	// Four looks at the host by either: the kernel's time is the floor.
	b.add("inject 1 device with 4 device numbers from the host, wall", "µs", microseconds(our.Wall), microseconds(their.Wall))
	return nil
}

func measureChanges(ctx context.Context, b *bench) error {
	our, their, err := b.both(ctx, task{What: "change", Dir: b.specs(10000), Specs: 10000, Count: 1})
	if err != nil {
		return err
	}
	b.add("1 of 10000 files changed, visible after", "ms", milliseconds(our.Wall), milliseconds(their.Wall), atMost(10))
	b.add("1 of 10000 files changed, CPU", "ms", milliseconds(our.CPU), milliseconds(their.CPU), atMost(5))
	if our, their, err = b.both(ctx, task{What: "change", Dir: b.specs(1000), Specs: 1000, Count: 50}); err != nil {
		return err
	}
	b.add("50 of 1000 files replaced, CPU", "ms", milliseconds(our.CPU), milliseconds(their.CPU), atMost(100))
	b.add("50 of 1000 files replaced, longest lookup", "ms", milliseconds(our.Stall), milliseconds(their.Stall))
	return nil
}

func measureMemories(ctx context.Context, b *bench) error {
	our, their, err := b.both(ctx, task{What: "memory", Dir: b.specs(10000), Specs: 10000})
	if err != nil {
		return err
	}
	b.add("10000 specs, peak memory of the process", "MiB", float64(our.Peak)/(1<<20), float64(their.Peak)/(1<<20), atMost(60))
	return nil
}

// measureCLI is a whole command, from its start to its end, on 1,000 specs: ours,
// and the least that can be written around upstream's library.
func measureCLI(ctx context.Context, b *bench) error {
	if b.program == "" {
		return nil
	}
	t := task{Library: theirs, What: "command", Dir: b.specs(1000), Specs: 1000, Config: b.config()}
	arg, err := json.Marshal(t)
	if err != nil {
		return err
	}
	their, err := b.wall(ctx, b.runs, b.self, "-child", string(arg))
	if err != nil {
		return err
	}
	inject := []string{"cdi", "inject", "--spec-dir", t.Dir, t.Config, device(7)}
	first, err := b.wall(ctx, 1, b.program, inject...)
	if err != nil {
		return err
	}
	our, err := b.wall(ctx, 5*b.runs, b.program, inject...)
	if err != nil {
		return err
	}
	b.add("command that injects on 1000 specs, first time, wall", "ms", milliseconds(first), milliseconds(their))
	b.add("command that injects on 1000 specs, wall", "ms", milliseconds(our), milliseconds(their), atMost(20))
	return nil
}

// wall is the median time of a command, with its state in the run's directory.
func (b *bench) wall(ctx context.Context, runs int, program string, args ...string) (time.Duration, error) {
	var times []time.Duration
	for range runs {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "FAIRLEAD_RUN_DIR="+filepath.Join(b.dir, "run"), "XDG_CACHE_HOME="+filepath.Join(b.dir, "cache"))
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		begin := time.Now()
		err := cmd.Run()
		times = append(times, time.Since(begin))
		if err != nil {
			return 0, fmt.Errorf("run %s %v: %w: %s", program, args, err, stderr.String())
		}
		if !bytes.Contains(stdout.Bytes(), []byte("VENDOR1_DEVICE_2=yes")) {
			return 0, fmt.Errorf("run %s %v: nothing was injected: %s", program, args, stdout.String())
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
