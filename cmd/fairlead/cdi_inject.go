package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// cdiInjection are the flags of "inject".
type cdiInjection struct{ inPlace, diff, annotated bool }

func newCDIInject(d *devices) *cobra.Command {
	var o cdiInjection
	cmd := &cobra.Command{
		Use:   "inject CONFIG|BUNDLE|- DEVICE...",
		Short: "Make the edits of devices in an OCI configuration",
		Long: `Read the configuration of a container (config.json of the OCI runtime
specification, from a file, from a bundle's directory or from stdin), make the
edits of the devices in it, and write it to stdout or back into the file.

All edits are made or none. Fields that this program does not know stay as they
are, and so does the order of keys. A device is injected once, however often it
is named. With --in-place the file is replaced in one step and keeps its mode and
owner; whoever else changes it in place with this program meanwhile waits.`,
		Example: `  fairlead cdi inject config.json vendor.com/gpu=0 > new.json
  fairlead cdi inject config.json 'vendor.com/gpu=*' --diff
  fairlead cdi inject bundle/ vendor.com/gpu=0 vendor.com/nic=1 --in-place
  fairlead cdi inject - --annotated < config.json`,
		Args:              args(1, -1, "a CONFIG and a DEVICE"),
		ValidArgsFunction: d.completeFileThenDevices,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 && !o.annotated {
				return usage(cmd, "%s needs a CONFIG and a DEVICE", cmd.CommandPath())
			}
			if o.inPlace && args[0] == "-" {
				return usage(cmd, "stdin cannot be changed in place")
			}
			return d.inject(args[0], args[1:], o)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.inPlace, "in-place", "i", false, "write the configuration back into its file")
	f.BoolVar(&o.diff, "diff", false, "show what changes, and write nothing but with --in-place")
	f.BoolVar(&o.annotated, "annotated", false, "inject the devices that the configuration's "+cdi.AnnotationPrefix+" annotations ask for, too")
	return cmd
}

func (d *devices) inject(name string, names []string, o cdiInjection) error {
	x, err := d.index()
	if err != nil {
		return err
	}
	name = configFile(name)
	if o.inPlace {
		unlock, err := lockFile(name)
		if err != nil {
			return inputError(err, claim.CodeInvalid)
		}
		defer unlock()
	}
	var indexed sync.WaitGroup
	indexed.Go(func() { x.Snapshot() }) // while the configuration is read
	defer indexed.Wait()
	text, err := d.readNamed(name)
	if err != nil {
		return inputError(err, claim.CodeInvalid)
	}
	c, err := parseConfig(name, text)
	if err != nil {
		return claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	if o.annotated {
		_, asked, err := cdi.ParseAnnotations(c.spec.Annotations)
		if err != nil {
			return cdiError(err)
		}
		names = append(slices.Clone(names), asked...)
	}
	refs, err := d.resolve(x, names)
	if err != nil {
		return err
	}
	if err := cdi.Inject(c.spec, refs...); err != nil {
		return cdiError(err)
	}
	edited, err := c.edited()
	if err != nil {
		return claim.Errorf(claim.CodeConflict, "%v", err)
	}
	return d.writeConfig(name, text, edited, o)
}

// configFile is the file of a configuration, or of the bundle in a directory.
func configFile(name string) string {
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		return filepath.Join(name, "config.json")
	}
	return name
}

func (d *devices) writeConfig(name string, old, edited []byte, o cdiInjection) error {
	if o.diff {
		if _, err := d.out.Write(configDiff(name, old, edited)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	switch {
	case o.inPlace && string(old) != string(edited):
		return cdiError(saveFile(name, edited))
	case o.inPlace, o.diff:
		return nil
	}
	if _, err := d.out.Write(edited); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// configDiff compares line by line, on many lines even where the text has one.
func configDiff(name string, old, edited []byte) []byte {
	if name == "-" {
		name = "config.json"
	}
	text := diff.Diff(name, readable(old), name, readable(edited))
	// The first line is the command that a person did not give.
	if _, rest, ok := strings.Cut(string(text), "\n"); ok {
		return []byte(rest)
	}
	return text
}

func readable(text []byte) []byte {
	v, err := parseJSON(text)
	if err != nil {
		return text // it was parsed before
	}
	c := config{text: []byte("{\n" + or(indentOf(text), "  ") + "\n")}
	return c.format(v)
}
