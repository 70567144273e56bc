// Package cdi checks whatever makes the edits of CDI devices in the
// configuration of a container: a library, a runtime, a command. It holds cases,
// which are data: spec directories and a configuration go in, a configuration or
// the class of an error comes out. Programs in other languages can read the same
// files, in testdata/cases.
//
// In a test of an injector:
//
//	func TestConformance(t *testing.T) {
//		cdi.Run(t, injector{})
//	}
//
// What the specification leaves open is not asked, or every answer that is in
// use will do.
package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/rogpeppe/go-internal/diff"
)

// Injector is what is checked. Inject returns the OCI configuration config with
// the edits of the devices, which are found in specDirs, the lowest priority
// first. It keeps nothing from one call to the next.
type Injector interface {
	Inject(specDirs []string, config []byte, devices []string) ([]byte, error)
}

// Class is the class of an error of Inject.
type Class string

// The classes.
const (
	// BadName: what is asked for is no qualified name of a device.
	BadName Class = "name"
	// UnknownKind: no valid spec is of that kind (CDI-123).
	UnknownKind Class = "unknown-kind"
	// UnknownDevice: no valid spec of that kind has the device (CDI-124).
	UnknownDevice Class = "unknown-device"
	// Ambiguous: several specs of one priority have the device.
	Ambiguous Class = "ambiguous"
	// Host: something is missing on the host (CDI-125).
	Host Class = "host"
	// Conflict: the edits contradict each other, the container or the host.
	Conflict Class = "conflict"
)

// Classifier is an Injector that tells the classes of its errors apart. For one
// that does not, any error will do.
type Classifier interface {
	Class(err error) Class
}

// Run runs all cases as subtests.
func Run(t *testing.T, in Injector) {
	cases, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Check(t.TempDir(), in); err != nil {
				t.Errorf("%s\n%s: %v", c.About, c.Req+c.Practice, err)
			}
		})
	}
}

// Check runs the case in an empty directory. The error says all that in did
// wrong.
func (c *Case) Check(dir string, in Injector) error {
	if err := c.write(dir); err != nil {
		return fmt.Errorf("prepare the case: %w", err)
	}
	var dirs []string
	for _, d := range c.Dirs {
		dirs = append(dirs, filepath.Join(dir, d))
	}
	var errs []error
	if c.Class != "" || c.wants != nil {
		got, err := in.Inject(dirs, c.config, c.Devices)
		errs = append(errs, c.judge(dir, in, got, err))
	}
	for _, device := range c.Refused {
		if got, err := in.Inject(dirs, c.config, []string{device}); err == nil {
			errs = append(errs, fmt.Errorf("%s was injected, and must not be: %s", device, got))
		}
	}
	return errors.Join(errs...)
}

// judge compares what Inject returned with what is wanted.
func (c *Case) judge(dir string, in Injector, got []byte, err error) error {
	if c.Class != "" {
		if err == nil {
			return fmt.Errorf("no error, want one of class %s; got %s", c.Class, got)
		}
		if cl, ok := in.(Classifier); ok && cl.Class(err) != c.Class {
			return fmt.Errorf("error of class %q, want %q: %w", cl.Class(err), c.Class, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("inject %s: %w", strings.Join(c.Devices, " "), err)
	}
	have, err := normal(got)
	if err != nil {
		return fmt.Errorf("read what was returned: %w", err)
	}
	var wants []string
	for _, w := range c.wants {
		want, err := normal(c.in(dir, w))
		if err != nil {
			return fmt.Errorf("read what is wanted: %w", err)
		}
		wants = append(wants, want)
	}
	if !slices.Contains(wants, have) {
		return fmt.Errorf("not what is wanted:\n%s", diff.Diff("want", []byte(wants[0]), "got", []byte(have)))
	}
	return nil
}

// normal is a configuration without the differences that mean nothing: order of
// keys, spaces, empty lists.
func normal(config []byte) (string, error) {
	var c oci.Spec
	if err := json.Unmarshal(config, &c); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(&c, "", " ")
	return string(text) + "\n", err
}
