package cdi

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// prepareNode makes the device and its cgroup rule.
func (in *injection) prepareNode(n *DeviceNode) error {
	d, own := next(&in.nodes), next(&in.numbers)
	d.Path, d.Type, d.Major, d.Minor = n.Path, n.Type, n.Major, n.Minor
	if d.Type == "" || d.Major == 0 && d.Type != "p" {
		host := n.HostPath
		if host == "" {
			host = n.Path // CDI-064
		}
		if err := in.fromHost(d, host); err != nil {
			return fmt.Errorf("device node %s: %w", n.Path, err)
		}
	}
	if in.hasIDs(n) {
		in.setIDs(d, n)
	}
	again := in.names.put(d.Path)
	if d.Type != "p" {
		in.allow(d, cmp.Or(n.Permissions, "rwm"), again, own)
	}
	return nil
}

// numbers are what a device's rule points to, and ids what a device points to
// that has any.
type (
	numbers struct{ major, minor int64 }
	ids     struct {
		mode     fs.FileMode
		uid, gid uint32
	}
)

func (in *injection) hasIDs(n *DeviceNode) bool {
	return n.FileMode != nil || n.UID != nil || n.GID != nil || in.uid > 0 || in.gid > 0
}

// setIDs gives a device its mode and owner, in memory of its own.
func (in *injection) setIDs(d *oci.LinuxDevice, n *DeviceNode) {
	own := next(&in.ids)
	if n.FileMode != nil {
		own.mode = fs.FileMode(*n.FileMode)
		d.FileMode = &own.mode
	}
	d.UID = owner(n.UID, in.uid, &own.uid)
	d.GID = owner(n.GID, in.gid, &own.gid)
}

// owner is the id that a spec gives, or that of the container's user, in own; nil
// means root.
func owner(given *uint32, user uint32, own *uint32) *uint32 {
	switch {
	case given != nil:
		*own = *given
	case user > 0:
		*own = user
	default:
		return nil
	}
	return own
}

func (in *injection) beginNodes() {
	var have []oci.LinuxDevice
	var rules []oci.LinuxDeviceCgroup
	if linux := in.config.Linux; linux != nil {
		have = linux.Devices
		if linux.Resources != nil {
			rules = linux.Resources.Devices
		}
	}
	n := in.counts.nodes
	in.nodes = append(room(in.nodes, len(have)+n), have...)
	in.rules = append(room(in.rules, len(rules)+n), rules...)
	in.before = len(rules)
	in.numbers, in.ids = room(in.numbers, n), room(in.ids, in.counts.ids)
	in.names.begin(len(have) + n)
	for i := range have {
		in.names.have(have[i].Path)
	}
}

// allow lets the container use the device. A node that several devices have,
// again then, gets one rule. It comes at the end: the last rule that fits a
// device decides.
func (in *injection) allow(d *oci.LinuxDevice, access string, again bool, own *numbers) {
	kind := ruleType(d)
	if again && slices.ContainsFunc(in.rules[in.before:], func(r oci.LinuxDeviceCgroup) bool {
		return *r.Minor == d.Minor && *r.Major == d.Major && r.Type == kind && r.Access == access
	}) {
		return
	}
	own.major, own.minor = d.Major, d.Minor
	rule := next(&in.rules)
	rule.Allow, rule.Type, rule.Access = true, kind, access
	rule.Major, rule.Minor = &own.major, &own.minor
}

// ruleType is the device's type as cgroups know it.
func ruleType(d *oci.LinuxDevice) string {
	if d.Type == "u" {
		return "c"
	}
	return d.Type
}

// endNodes drops the nodes that were replaced, and the rules that only they
// needed.
func (in *injection) endNodes() {
	if in.counts.nodes == 0 || in.names.gone == 0 {
		return
	}
	in.nodes = living(&in.names, in.nodes)
	type number struct {
		kind         string
		major, minor int64
	}
	needed := make(map[number]bool, len(in.nodes))
	for i := range in.nodes {
		d := &in.nodes[i]
		needed[number{ruleType(d), d.Major, d.Minor}] = true
	}
	left := slices.DeleteFunc(in.rules[in.before:], func(r oci.LinuxDeviceCgroup) bool {
		return !needed[number{r.Type, *r.Major, *r.Minor}]
	})
	in.rules = in.rules[:in.before+len(left)]
}

// fromHost fills in what a spec leaves out of a device node.
func (in *injection) fromHost(d *oci.LinuxDevice, path string) error {
	host, known := in.hosts[path]
	if !known {
		var err error
		if host, err = lookAt(path); err != nil {
			return err
		}
		in.hosts[path] = host
	}
	switch {
	case d.Type == "":
		d.Type = host.kind
	case d.Type != host.kind && (d.Type != "u" || host.kind != "c"):
		return fmt.Errorf("%s on the host is of type %s, not %s: %w", path, host.kind, d.Type, ErrConflict)
	}
	if d.Major == 0 && host.kind != "p" {
		d.Major, d.Minor = host.major, host.minor
	}
	return nil
}

// hostNode is a device node of the host. Numbers change from one start of the
// host to the next: each injection looks for itself.
type hostNode struct {
	kind         string
	major, minor int64
}

func lookAt(path string) (hostNode, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return hostNode{}, fmt.Errorf("look at %s on the host: %w", path, err) // CDI-125
	}
	n := hostNode{major: int64(unix.Major(uint64(st.Rdev))), minor: int64(unix.Minor(uint64(st.Rdev)))}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		n.kind = "b"
	case unix.S_IFCHR:
		n.kind = "c"
	case unix.S_IFIFO:
		n.kind = "p"
	default:
		return hostNode{}, fmt.Errorf("%s on the host is no device: %w", path, ErrConflict)
	}
	return n, nil
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
