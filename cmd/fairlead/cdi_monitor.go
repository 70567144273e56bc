package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
)

// cdiChange is one line of "monitor".
type cdiChange struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"` // added, changed or removed
	Object string    `json:"object"` // device, spec or error
	Name   string    `json:"name"`   // of the device, or path
	File   string    `json:"file,omitempty"`
	Error  string    `json:"error,omitempty"`
}

func newCDIMonitor(d *devices) *cobra.Command {
	var o output
	var initial bool
	cmd := &cobra.Command{
		Use:   "monitor [DEVICE|PATH...]",
		Short: "Print changes of devices and specs as they happen",
		Long: `Print a line for each device that comes, goes or is taken from another file, for
each spec file that comes, goes or changes, and for each error that comes or
goes; of some devices or files, if any are named. Paths begin at the root. With -o json each line is an
object. A signal (SIGINT, SIGTERM) ends it with exit code 0.`,
		Example:           "  fairlead cdi monitor\n  fairlead cdi monitor 'vendor.com/*' -o json\n  fairlead cdi monitor --initial",
		ValidArgsFunction: d.completeDevices,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPatterns(args); err != nil {
				return err
			}
			// What is watched has its name from the root on.
			dirs, err := d.specDirs()
			if err != nil {
				return err
			}
			if d.dirs, err = absolutePaths(dirs); err != nil {
				return err
			}
			x, err := d.index()
			if err != nil {
				return err
			}
			m := monitor{devices: d, format: o.format, only: args}
			return m.run(cmd.Context(), x, initial)
		},
	}
	cmd.Flags().BoolVar(&initial, "initial", false, "begin with what there is")
	o.addTo(cmd, "text", "json", "name")
	return cmd
}

func absolutePaths(paths []string) ([]string, error) {
	list := make([]string, len(paths))
	for i, p := range paths {
		var err error
		if list[i], err = filepath.Abs(p); err != nil {
			return nil, fmt.Errorf("find %s: %w", p, err)
		}
	}
	return list, nil
}

type monitor struct {
	*devices
	format string
	only   []string // names and patterns; none means all
	last   world
}

// world is what there is at one moment, each by name.
type world struct {
	devices map[string]string // the file that each is from
	specs   map[string]string // the identity of each
	errs    map[string]string
}

func see(s *cdi.Snapshot) world {
	w := world{map[string]string{}, map[string]string{}, map[string]string{}}
	for _, name := range s.Devices() {
		e, _ := s.Explain(name) // it can be injected
		w.devices[name] = e.File
	}
	for _, f := range s.Specs() {
		w.specs[f.Path] = identityOf(f.Path)
	}
	for path, err := range s.Errors() {
		w.errs[path] = err.Error()
	}
	return w
}

// identityOf tells one content of a file from the next.
func identityOf(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(fi.ModTime().UnixNano(), fi.Size(), fi.Sys())
}

func (m *monitor) run(ctx context.Context, x *cdi.Index, initial bool) error {
	s := x.Snapshot()
	if m.last = see(s); initial {
		now := m.last
		m.last = world{}
		if err := m.changes(now); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watched := make(chan error, 1)
	watch.Go(func() { watched <- x.Watch(ctx) })
	m.say("watching %s", strings.Join(m.dirs, ", "))
	for {
		select {
		case err := <-watched:
			return err // nil when ctx has ended
		case <-s.Replaced():
		}
		s = x.Snapshot()
		if err := m.changes(see(s)); err != nil {
			return err
		}
	}
}

// changes prints what differs from the world before.
func (m *monitor) changes(now world) error {
	list := slices.Concat(
		differences("error", m.last.errs, now.errs),
		differences("spec", m.last.specs, now.specs),
		differences("device", m.last.devices, now.devices))
	m.last = now
	at := m.now().UTC()
	for _, c := range list {
		if !m.wanted(c) {
			continue
		}
		c.Time = at
		if err := m.line(c); err != nil {
			return err
		}
	}
	return nil
}

func differences(object string, before, now map[string]string) (list []cdiChange) {
	note := func(change, name, value string) {
		c := cdiChange{Change: change, Object: object, Name: name}
		switch object {
		case "device":
			c.File = value
		case "error":
			c.Error = value
		}
		list = append(list, c)
	}
	for name, was := range before {
		if is, there := now[name]; !there {
			note("removed", name, was)
		} else if is != was {
			note("changed", name, is)
		}
	}
	for name, is := range now {
		if _, there := before[name]; !there {
			note("added", name, is)
		}
	}
	slices.SortFunc(list, func(a, b cdiChange) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Change, b.Change)) })
	return list
}

func (m *monitor) wanted(c cdiChange) bool {
	return len(m.only) == 0 || slices.ContainsFunc(m.only, func(p string) bool { return fits(p, c.Name) || c.File != "" && fits(p, c.File) })
}

// line prints one change. Each is one write: nothing waits in a buffer.
func (m *monitor) line(c cdiChange) error {
	switch m.format {
	case "name":
		return m.print("%s", c.Name)
	case "json":
		text, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		return m.print("%s", text)
	}
	rest := c.File
	if c.Error != "" {
		rest, _, _ = strings.Cut(c.Error, "\n")
	}
	return m.print("%s", strings.TrimSpace(fmt.Sprintf("%s  %-7s  %-6s  %s  %s", c.Time.Local().Format(time.TimeOnly), c.Change, c.Object, c.Name, rest)))
}
