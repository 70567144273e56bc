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
	d := oci.LinuxDevice{Path: n.Path, Type: n.Type, Major: n.Major, Minor: n.Minor, UID: clone(n.UID), GID: clone(n.GID)}
	if n.FileMode != nil {
		mode := fs.FileMode(*n.FileMode)
		d.FileMode = &mode
	}
	if d.Type == "" || d.Major == 0 && d.Type != "p" {
		host := n.HostPath
		if host == "" {
			host = n.Path // CDI-064
		}
		if err := in.fromHost(&d, host); err != nil {
			return fmt.Errorf("device node %s: %w", n.Path, err)
		}
	}
	if p := in.config.Process; p != nil {
		if d.UID == nil && p.User.UID > 0 {
			d.UID = clone(&p.User.UID)
		}
		if d.GID == nil && p.User.GID > 0 {
			d.GID = clone(&p.User.GID)
		}
	}
	if in.nodes == nil {
		in.beginNodes()
	}
	again := in.nodes.put(d)
	if d.Type != "p" {
		in.allow(d, cmp.Or(n.Permissions, "rwm"), again)
	}
	return nil
}

func (in *injection) beginNodes() {
	var have []oci.LinuxDevice
	if in.config.Linux != nil {
		have = in.config.Linux.Devices
	}
	in.nodes = newKeyed(have, in.counts.nodes, func(d *oci.LinuxDevice) string { return d.Path })
	in.rules = make([]oci.LinuxDeviceCgroup, 0, in.counts.nodes)
	in.numbers = make([]int64, 0, 2*in.counts.nodes)
}

// allow lets the container use the device. A node that several devices have,
// again then, gets one rule.
func (in *injection) allow(d oci.LinuxDevice, access string, again bool) {
	kind := d.Type
	if kind == "u" { // cgroups know it as c only
		kind = "c"
	}
	if again && slices.ContainsFunc(in.rules, func(r oci.LinuxDeviceCgroup) bool {
		return *r.Minor == d.Minor && *r.Major == d.Major && r.Type == kind && r.Access == access
	}) {
		return
	}
	in.numbers = append(in.numbers, d.Major, d.Minor)
	numbers := in.numbers[len(in.numbers)-2:]
	in.rules = append(in.rules, oci.LinuxDeviceCgroup{Allow: true, Type: kind, Major: &numbers[0], Minor: &numbers[1], Access: access})
}

// fromHost fills in what a spec leaves out of a device node.
func (in *injection) fromHost(d *oci.LinuxDevice, path string) error {
	host, known := in.hosts[path]
	if !known {
		var err error
		if host, err = lookAt(path); err != nil {
			return err
		}
		if in.hosts == nil {
			in.hosts = map[string]hostNode{}
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

func (in *injection) applyLinux() {
	linux := oci.Linux{}
	if in.config.Linux != nil {
		linux = *in.config.Linux
	}
	if in.nodes != nil {
		linux.Devices = in.nodes.list()
	}
	if len(in.rules) > 0 {
		resources := oci.LinuxResources{}
		if linux.Resources != nil {
			resources = *linux.Resources
		}
		// At the end: the last rule that fits a device decides.
		resources.Devices = append(slices.Clip(resources.Devices), in.rules...)
		linux.Resources = &resources
	}
	if in.nets != nil {
		linux.NetDevices = in.nets
	}
	if in.rdt != nil {
		linux.IntelRdt = in.rdt
	}
	in.config.Linux = &linux
}

func clone[T any](v *T) *T {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}
