// Command cdi measures Fairlead's CDI library beside upstream's, in one run and
// on the same files. It is a module of its own, so that the product does not
// depend on upstream's library.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sections are what can be selected, in the order in which they run.
var sections = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"load", measureLoads},
	{"inject", measureInjects},
	{"change", measureChanges},
	{"memory", measureMemories},
	{"cli", measureCLI},
}

// bench is one run.
type bench struct {
	self    string // this program
	program string // the fairlead under test; "" if there is none
	dir     string
	runs    int // of each task, of which the median counts
	rows    []row
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := f.String("only", "", "sections to run, separated by commas: load, inject, change, memory, cli (default all)")
	program := f.String("program", "fairlead", "the program under test")
	runs := f.Int("runs", 3, "how often to measure our figures; the median counts")
	format := f.String("o", "table", "table, markdown or json")
	one := f.String("child", "", "for this program itself")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *one != "" {
		return child(*one)
	}
	b := &bench{runs: *runs}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.program, err = exec.LookPath(*program); err != nil {
		fmt.Fprintln(os.Stderr, "bench: the section cli is left out:", err)
	} else if b.program, err = filepath.Abs(b.program); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "bench-cdi-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	about := machine()
	size, err := b.corpus()
	if err != nil {
		return err
	}
	for _, s := range sections {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: cdi %s …\n", s.name)
		if err := s.run(ctx, b); err != nil {
			return fmt.Errorf("section %s: %w", s.name, err)
		}
	}
	return b.print(*format, fmt.Sprintf("Specs of %.1f KB with %d devices. %s", float64(size)/1e3, devicesPerSpec, about))
}

func (b *bench) print(format, about string) error {
	switch format {
	case "json":
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(map[string]any{"about": about, "rows": b.rows})
	case "markdown":
		if err := printMarkdown(os.Stdout, b.rows); err != nil {
			return err
		}
	default:
		if err := printText(os.Stdout, b.rows); err != nil {
			return err
		}
	}
	fmt.Println("\n" + about)
	return nil
}

// specs is the directory with n specs.
func (b *bench) specs(n int) string { return filepath.Join(b.dir, fmt.Sprint(n)) }

func (b *bench) corpus() (size int64, err error) {
	for _, n := range []int{1000, 10000} {
		if size, err = fill(b.specs(n), n); err != nil {
			return 0, err
		}
	}
	// Files that are young are looked at again: not so in what is measured.
	time.Sleep(100 * time.Millisecond)
	return size, writeConfig(b.config())
}

func (b *bench) config() string { return filepath.Join(b.dir, "config.json") }

// child runs a task in a process of its own, ours several times: the median by
// processor time counts.
func (b *bench) child(ctx context.Context, t task) (figures, error) {
	runs := b.runs
	if t.Library == theirs && t.Specs > 1000 {
		runs = 1 // seconds each
	}
	arg, err := json.Marshal(t)
	if err != nil {
		return figures{}, err
	}
	var all []figures
	for range runs {
		cmd := exec.CommandContext(ctx, b.self, "-child", string(arg))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return figures{}, fmt.Errorf("measure %s of %s: %w", t.What, t.Library, err)
		}
		var f figures
		if err := json.Unmarshal(out, &f); err != nil {
			return figures{}, fmt.Errorf("measure %s of %s: %w", t.What, t.Library, err)
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b figures) int { return int(a.CPU - b.CPU) })
	return all[len(all)/2], nil
}

// both runs a task with both libraries.
func (b *bench) both(ctx context.Context, t task) (our, their figures, err error) {
	t.Library = theirs
	if their, err = b.child(ctx, t); err != nil {
		return our, their, err
	}
	t.Library = ours
	our, err = b.child(ctx, t)
	return our, their, err
}

func (b *bench) add(name, unit string, our, their float64, bars ...func(*row)) {
	r := row{Name: name, Unit: unit, Ours: our, Theirs: their}
	for _, bar := range bars {
		bar(&r)
	}
	b.rows = append(b.rows, r)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
