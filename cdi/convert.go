package cdi

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
)

// ErrLoss says that a spec cannot be written in another version without leaving
// something out.
var ErrLoss = errors.New("something would be lost")

// Convert returns s in another version of the specification, from 0.3.0 to
// 1.1.0. Where that version lacks what s uses, the error wraps ErrLoss and says,
// as Problems, what that is. enableCMT and enableMBM, which 1.1.0 no longer has,
// become its enableMonitoring. s is not changed, and needs no version of its own.
func Convert(s *Spec, to string) (*Spec, error) {
	c, err := complete(s)
	if err != nil {
		return nil, fmt.Errorf("convert CDI spec: %w", err)
	}
	v, rule, fix := parseVersion(to)
	if rule != "" {
		return nil, fmt.Errorf("convert CDI spec: %q is no version: write %s: %w", to, fix, ErrInvalid)
	}
	from := c.Version
	c.Version = to
	if v >= v110 {
		for _, e := range c.allEdits() {
			if r := e.IntelRdt; r != nil {
				r.EnableMonitoring = r.EnableMonitoring || r.EnableCMT || r.EnableMBM
				r.EnableCMT, r.EnableMBM = false, false
			}
		}
	}
	if err := Validate(c); err != nil {
		return nil, fmt.Errorf("convert CDI spec from %s to %s: %w:\n%w", from, to, ErrLoss, err)
	}
	return c, nil
}

// complete is a copy of s with a version, as Write gives it one. The error is
// Problems.
func complete(s *Spec) (*Spec, error) {
	c := s.Clone()
	if c.Version == "" {
		c.Version = MinimumVersion(c)
	}
	return c, Validate(c)
}

// TransformRoot returns s with every host path at or below from moved to the
// same place below to: those of device nodes, mounts and hooks. It is for a
// driver that is installed, or seen by the runtime, under another root. Paths in
// the container stay. A hook's first argument moves with its path if it is the same
// (CDI-106). Where a device node gets a hostPath that its version lacks, the version
// is raised.
func TransformRoot(s *Spec, from, to string) (*Spec, error) {
	if !path.IsAbs(from) || !path.IsAbs(to) {
		return nil, fmt.Errorf("transform root of CDI spec: %q and %q are to be absolute paths: %w", from, to, ErrInvalid)
	}
	from, to = path.Clean(from), path.Clean(to)
	c, err := complete(s)
	if err != nil {
		return nil, fmt.Errorf("transform root of CDI spec: %w", err)
	}
	for _, e := range c.allEdits() {
		for _, n := range e.DeviceNodes {
			host := n.HostPath
			if host == "" {
				host = n.Path // CDI-064
			}
			if moved := move(host, from, to); moved != host {
				n.HostPath = moved
			}
		}
		for _, m := range e.Mounts {
			if isBind(m) {
				m.HostPath = move(m.HostPath, from, to)
			}
		}
		for _, h := range e.Hooks {
			moved := move(h.Path, from, to)
			if len(h.Args) > 0 && h.Args[0] == h.Path {
				h.Args[0] = moved
			}
			h.Path = moved
		}
	}
	if Validate(c) != nil { // for want of hostPath
		c.Version = MinimumVersion(c)
	}
	return c, nil
}

// move is the path as it is below another root, if it is below the first.
func move(p, from, to string) string {
	clean := path.Clean(p)
	switch {
	case from == "/":
		return path.Join(to, clean)
	case clean == from:
		return to
	case strings.HasPrefix(clean, from+"/"):
		return path.Join(to, clean[len(from):])
	}
	return p
}

// Merge returns one spec with the devices of all. They are to be of one kind. A
// device that several have is kept once if it is the same in each, and is a
// conflict otherwise; so are edits for all devices that differ, since those of
// one spec would be made for the devices of the others, and annotations.
func Merge(specs ...*Spec) (*Spec, error) {
	if len(specs) == 0 {
		return nil, fmt.Errorf("merge CDI specs: there are none: %w", ErrInvalid)
	}
	var merged *Spec
	for i, s := range specs {
		c, err := complete(s)
		if err == nil && i > 0 {
			err = merged.take(c)
		} else {
			merged = c
		}
		if err != nil {
			return nil, fmt.Errorf("merge CDI specs: number %d: %w", i+1, err)
		}
	}
	merged.Version = MinimumVersion(merged)
	// enableCMT and enableMBM exist up to 1.0.0 only.
	if err := Validate(merged); err != nil {
		return nil, fmt.Errorf("merge CDI specs: %w", err)
	}
	return merged, nil
}

// take adds what another spec has.
func (s *Spec) take(other *Spec) error {
	if other.Kind != s.Kind {
		return fmt.Errorf("it is of kind %s, not %s: %w", other.Kind, s.Kind, ErrConflict)
	}
	if !equal(s.ContainerEdits, other.ContainerEdits) {
		return fmt.Errorf("its containerEdits for all devices differ: %w", ErrConflict)
	}
	for key, value := range other.Annotations {
		if have, ok := s.Annotations[key]; ok && have != value {
			return fmt.Errorf("its annotation %q differs: %w", key, ErrConflict)
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[key] = value
	}
	for _, d := range other.Devices {
		have := s.device(d.Name)
		if have == nil {
			s.Devices = append(s.Devices, d)
			continue
		}
		if !maps.Equal(have.Annotations, d.Annotations) || !equal(have.ContainerEdits, d.ContainerEdits) {
			return fmt.Errorf("its device %q differs: %w", d.Name, ErrConflict)
		}
	}
	return nil
}

// equal compares edits by what they do; an empty list is none.
func equal(a, b ContainerEdits) bool {
	return a.IsZero() && b.IsZero() || reflect.DeepEqual(a.clone(), b.clone())
}

// allEdits are the edits of the spec and of its devices, to be changed in place.
func (s *Spec) allEdits() []*ContainerEdits {
	all := []*ContainerEdits{&s.ContainerEdits}
	for i := range s.Devices {
		all = append(all, &s.Devices[i].ContainerEdits)
	}
	return all
}

// Clone returns a copy that shares nothing with s.
func (s *Spec) Clone() *Spec {
	c := *s
	c.Annotations = maps.Clone(s.Annotations)
	c.ContainerEdits = s.ContainerEdits.clone()
	c.Devices = slices.Clone(s.Devices)
	for i := range c.Devices {
		d := &c.Devices[i]
		d.Annotations = maps.Clone(d.Annotations)
		d.ContainerEdits = d.ContainerEdits.clone()
	}
	return &c
}

// clone copies edits; empty lists become nil ones.
func (e ContainerEdits) clone() ContainerEdits {
	e.Env = copied(e.Env)
	e.AdditionalGIDs = copied(e.AdditionalGIDs)
	e.NetDevices = cloneAll(e.NetDevices, func(*NetDevice) {})
	e.DeviceNodes = cloneAll(e.DeviceNodes, func(n *DeviceNode) {
		n.FileMode, n.UID, n.GID = clone(n.FileMode), clone(n.UID), clone(n.GID)
	})
	e.Mounts = cloneAll(e.Mounts, func(m *Mount) { m.Options = copied(m.Options) })
	e.Hooks = cloneAll(e.Hooks, func(h *Hook) {
		h.Args, h.Env, h.Timeout = copied(h.Args), copied(h.Env), clone(h.Timeout)
	})
	if e.IntelRdt = clone(e.IntelRdt); e.IntelRdt != nil {
		e.IntelRdt.Schemata = copied(e.IntelRdt.Schemata)
	}
	return e
}

func copied[T any](list []T) []T { return append([]T(nil), list...) }

// cloneAll copies what a list points to, and then its inner parts.
func cloneAll[T any](list []*T, inner func(*T)) []*T {
	var all []*T
	for _, v := range list {
		c := clone(v)
		if c != nil {
			inner(c)
		}
		all = append(all, c)
	}
	return all
}
