// Command bench measures Fairlead's programs as they are: real processes, on a
// real disk, each figure beside the reference that it is a ratio of, taken in
// the same run. It prints one table; docs/reference/performance.md explains it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// sections are what can be selected, in the order in which they run.
var sections = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"driver", measureDriver},
	{"group", measureGroup},
	{"idle", measureIdle},
	{"cli", measureCLI},
	{"scale", measureScale},
}

// bench is one run.
type bench struct {
	program string // the fairlead under test
	disk    string // a directory on a disk, for state
	memory  string // a directory on tmpfs, for sockets and credentials
	claims  int    // of the section scale
	logs    io.Writer
	table   table
}

func main() {
	// The death signal of children belongs to the thread that started them.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := f.String("only", "", "sections to run, separated by commas: driver, group, idle, cli, scale (default all)")
	program := f.String("program", "fairlead", "the program under test")
	dir := f.String("dir", "", "a directory on the disk to measure on (default: that of the program)")
	claims := f.Int("claims", 10_000, "number of claims of the section scale")
	format := f.String("o", "table", "table, markdown or json")
	verbose := f.Bool("v", false, "show the logs of the programs under test")
	if err := f.Parse(args); err != nil {
		return err
	}
	selected, err := selection(*only)
	if err != nil {
		return err
	}
	b := &bench{claims: *claims, logs: io.Discard}
	if *verbose {
		b.logs = os.Stderr
	}
	if b.program, err = exec.LookPath(*program); err != nil {
		return fmt.Errorf("find the program under test (make build): %w", err)
	}
	if b.program, err = filepath.Abs(b.program); err != nil {
		return err
	}
	if *dir == "" {
		*dir = filepath.Dir(b.program)
	}
	clean, err := b.directories(*dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean()) }()
	b.table.Machine = machine(b.disk)
	for _, s := range sections {
		if !slices.Contains(selected, s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s …\n", s.name)
		if err := s.run(ctx, b); err != nil {
			return fmt.Errorf("section %s: %w", s.name, err)
		}
	}
	return b.print(*format)
}

// selection checks the sections that were asked for; none asked for is all.
func selection(only string) (names []string, err error) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	if only == "" {
		return names, nil
	}
	chosen := strings.Split(only, ",")
	for _, c := range chosen {
		if !slices.Contains(names, c) {
			return nil, fmt.Errorf("there is no section %q: use %s", c, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// directories makes the places that the programs under test live in.
func (b *bench) directories(on string) (clean func() error, err error) {
	if b.disk, err = os.MkdirTemp(on, "bench-"); err != nil {
		return nil, err
	}
	if b.disk, err = filepath.Abs(b.disk); err != nil {
		return nil, err
	}
	// Short: paths of sockets are limited to 107 bytes.
	if b.memory, err = os.MkdirTemp("/dev/shm", "flb"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.disk))
	}
	return func() error { return errors.Join(os.RemoveAll(b.disk), os.RemoveAll(b.memory)) }, nil
}

func (b *bench) print(format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(b.table)
	case "markdown":
		return b.table.markdown(os.Stdout)
	}
	return b.table.text(os.Stdout)
}
