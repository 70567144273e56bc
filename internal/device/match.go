package device

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Match says which devices are meant. All that is set must fit; the zero Match
// fits every device.
type Match struct {
	// Path is a device node, a link to one, or a pattern of such paths
	// (path.Match), below /dev. Kind and Select then restrict nothing.
	Path string
	Kind Kind
	// Select is a device's name or an attribute's value, or a pattern of either;
	// for USB also vendor:product[:serial].
	Select string
	// Attributes are patterns of attributes' values, by name.
	Attributes map[string]string
}

// ParseMatch reads a match as a person writes it:
//
//	/dev/fuse, /dev/ttyUSB*             a path or a pattern of paths
//	dri                                 a kind
//	dri:pci-0000_03_00.0                a kind and a name, or a pattern of names
//	usb:0403:6001, usb:0403:6001:A50285 vendor, product and serial number
//	nvidia,model=*H100*,driver=nvidia   a kind and attributes
//
// The error wraps ErrInvalid.
func ParseMatch(s string) (Match, error) {
	if strings.HasPrefix(s, "/") {
		m := Match{Path: s}
		return m, m.check()
	}
	fields := strings.Split(s, ",")
	kind, selector, selects := strings.Cut(fields[0], ":")
	m := Match{Kind: Kind(kind), Select: selector}
	if kind == "" || selects && selector == "" {
		return Match{}, fmt.Errorf("match %q: it begins with no kind, path or KIND:NAME: %w", s, ErrInvalid)
	}
	for _, field := range fields[1:] {
		name, value, ok := strings.Cut(field, "=")
		if !ok || name == "" || value == "" {
			return Match{}, fmt.Errorf("match %q: %q is not of the form ATTRIBUTE=VALUE: %w", s, field, ErrInvalid)
		}
		if m.Attributes == nil {
			m.Attributes = make(map[string]string)
		}
		if _, twice := m.Attributes[name]; twice {
			return Match{}, fmt.Errorf("match %q: %s is there twice: %w", s, name, ErrInvalid)
		}
		m.Attributes[name] = value
	}
	return m, m.check()
}

// String writes the match as ParseMatch reads it.
func (m Match) String() string {
	if m.Path != "" {
		return m.Path
	}
	s := string(m.Kind)
	if m.Select != "" {
		s += ":" + m.Select
	}
	names := make([]string, 0, len(m.Attributes))
	for name := range m.Attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s += "," + name + "=" + m.Attributes[name]
	}
	return s
}

// attributeNames are those that a match may ask for.
var attributeNames = []string{
	AttrVendor, AttrProduct, AttrSerial, AttrDriver, AttrPCI, AttrPort, AttrModel, AttrUUID, AttrVersion, AttrGroup, AttrKernel,
}

func (m Match) check() error {
	if m.Path != "" && (path.Clean(m.Path) != m.Path || !strings.HasPrefix(m.Path, "/dev/")) {
		return fmt.Errorf("match %q: it is no path below /dev without . and ..: %w", m.Path, ErrInvalid)
	}
	if m.Kind != "" && !slices.Contains(Kinds(), m.Kind) {
		return fmt.Errorf("match %q: there is no kind %q (there are %v): %w", m, m.Kind, Kinds(), ErrInvalid)
	}
	patterns := []string{m.Path, m.Select}
	for name, pattern := range m.Attributes {
		if !slices.Contains(attributeNames, name) {
			return fmt.Errorf("match %q: there is no attribute %q (there are %s): %w", m, name, strings.Join(attributeNames, ", "), ErrInvalid)
		}
		patterns = append(patterns, pattern)
	}
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("match %q: pattern %q is malformed: %w", m, pattern, ErrInvalid)
		}
	}
	return nil
}

// fits reports whether d is meant, its path aside.
func (m Match) fits(d Device) bool {
	if m.Kind != "" && m.Kind != d.Kind || m.Select != "" && !m.selects(d) {
		return false
	}
	for name, pattern := range m.Attributes {
		if !fitsValue(pattern, d.Attributes[name]) {
			return false
		}
	}
	return true
}

func (m Match) selects(d Device) bool {
	if fitsValue(m.Select, d.Name) {
		return true
	}
	if parts := strings.SplitN(m.Select, ":", 3); d.Kind == USB && len(parts) > 1 &&
		fitsValue(parts[0], d.Attributes[AttrVendor]) && fitsValue(parts[1], d.Attributes[AttrProduct]) {
		return len(parts) == 2 || fitsValue(parts[2], d.Attributes[AttrSerial])
	}
	for _, name := range []string{AttrPCI, AttrSerial, AttrUUID, AttrKernel} {
		if fitsValue(m.Select, d.Attributes[name]) {
			return true
		}
	}
	return false
}

// fitsValue compares without regard to case: hexadecimal numbers are written both
// ways, and of a value that is not known nothing fits.
func fitsValue(pattern, value string) bool {
	// A slash in a model's name is no separator here.
	flat := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }
	ok, err := path.Match(flat(pattern), flat(value))
	return value != "" && ok && err == nil
}

// paths finds the nodes that a path or a pattern of paths leads to.
func (s *scan) paths(ctx context.Context, m Match) ([]Device, error) {
	all, err := s.kinds(ctx, Kinds()...)
	if err != nil {
		return nil, err
	}
	var found []Device
	for _, name := range s.glob(m.Path) {
		d, ok := s.byPath(name, all)
		if !ok {
			continue
		}
		same := func(o Device) bool { return o.Nodes[0].HostPath == d.Nodes[0].HostPath }
		if i := slices.IndexFunc(found, same); i >= 0 { // the node and a link to it
			found[i].Nodes = append(found[i].Nodes, d.Nodes...)
			continue
		}
		found = append(found, d)
	}
	settle(found)
	slices.SortFunc(found, func(a, b Device) int {
		return strings.Compare(string(a.Kind)+"\x00"+a.Name, string(b.Kind)+"\x00"+b.Name)
	})
	return found, nil
}

// byPath is the device of just the node that name is, or leads to. It is in the
// container under the path by which it was asked for.
func (s *scan) byPath(name string, all []Device) (Device, bool) {
	real := s.resolve(name)
	n, ok := s.nodeAt(real)
	if !ok || !strings.HasPrefix(real, "/dev/") {
		return Device{}, false
	}
	n.Path = name
	for _, owner := range all {
		i := slices.IndexFunc(owner.Nodes, func(o Node) bool { return o.HostPath == real })
		if i < 0 {
			continue
		}
		n.Role, n.shared = owner.Nodes[i].Role, owner.Nodes[i].shared
		owner.Nodes = []Node{n}
		owner.Libraries, owner.Binaries, owner.Files = nil, nil, nil
		owner.Name = safeName(owner.Name, n.Role)
		if n.shared {
			owner.Name, owner.Attributes = safeName(path.Base(real)), nil
		}
		return owner, true
	}
	// A node that sysfs does not know by that path: a pseudo-terminal's, one made
	// by hand.
	kind := map[string]Kind{"b": Block, "c": Char}[n.Type]
	base := strings.ReplaceAll(strings.TrimPrefix(real, "/dev/"), "/", "-")
	return Device{Kind: kind, Name: safeName(base), Nodes: []Node{n}, place: base, sys: real}, true
}
