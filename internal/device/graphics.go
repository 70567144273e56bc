package device

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// cards finds graphics devices: the nodes of one piece of hardware are one
// device.
func (s *scan) cards() []Device {
	var all []Device
	at := make(map[string]int) // hardware to index in all
	for _, d := range s.class("drm") {
		role := drmRole(d.name())
		n, ok := s.node(d, role)
		if !ok || role == "" {
			continue
		}
		hardware := d.hardware()
		i, known := at[hardware.path]
		if !known {
			i = len(all)
			at[hardware.path] = i
			a := describe(hardware)
			attributes(a).set(AttrKernel, d.name())
			attributes(a).set(AttrUUID, hardware.attr("unique_id"))
			all = append(all, Device{Name: busName(hardware), Attributes: a, place: clean(hardware.name()), sys: hardware.path})
		}
		all[i].Nodes = append(all[i].Nodes, n)
		if link := s.drmLink(hardware, n); link != "" {
			all[i].Nodes = append(all[i].Nodes, alias(n, link))
		}
	}
	for i := range all { // card before render, each before its alias
		slices.SortStableFunc(all[i].Nodes, func(a, b Node) int { return strings.Compare(a.Role, b.Role) })
	}
	return all
}

func drmRole(name string) string {
	for prefix, role := range map[string]string{"card": "card", "renderD": "render"} {
		if number, ok := strings.CutPrefix(name, prefix); ok && isNumber(number) {
			return role
		}
	}
	return "" // connectors (card0-DP-1), version
}

func isNumber(s string) bool {
	return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == ""
}

// hardware is what a class device belongs to, or the class device itself.
func (d sysdev) hardware() sysdev {
	if real := d.resolve(path.Join(d.path, "device")); strings.HasPrefix(real, "/sys/devices/") {
		return sysdev{d.tree, real}
	}
	return d
}

// drmLink is the link by PCI address that udev makes, or would make.
func (s *scan) drmLink(hardware sysdev, n Node) string {
	if link := s.linkIn("/dev/dri/by-path", n.HostPath); link != "" {
		return link
	}
	if !isPCI(hardware.name()) {
		return ""
	}
	return "/dev/dri/by-path/pci-" + hardware.name() + "-" + n.Role
}

// computers finds AMD's GPUs as ROCm opens them. /dev/kfd is one for all of
// them; the render node is what restricts a container to one.
func (s *scan) computers() []Device {
	kfd, ok := forAll(s.node(s.sysdev("/sys/class/kfd/kfd"), "kfd"))
	if !ok {
		return nil
	}
	all := []Device{}
	const nodes = "/sys/class/kfd/kfd/topology/nodes"
	for _, number := range s.names(nodes) {
		d := s.sysdev(path.Join(nodes, number))
		properties := parseProperties(d.read(path.Join(d.path, "properties")))
		minor, ok := properties["drm_render_minor"]
		if !ok || minor == 0 || properties["simd_count"] == 0 {
			continue // a CPU
		}
		if gpu, ok := s.computer(kfd, minor, properties); ok {
			attributes(gpu.Attributes).set(AttrModel, d.attr("name"))
			all = append(all, gpu)
		}
	}
	if len(all) == 0 {
		all = append(all, Device{Name: "kfd", Nodes: []Node{kfd}, Attributes: attributes{AttrKernel: "kfd"}})
	}
	return all
}

func (s *scan) computer(kfd Node, minor uint64, properties map[string]uint64) (Device, bool) {
	drm := s.sysdev("/sys/class/drm/renderD" + strconv.FormatUint(minor, 10))
	render, ok := s.node(drm, "render")
	if !ok {
		return Device{}, false
	}
	hardware := drm.hardware()
	a := attributes(describe(hardware))
	place := clean(hardware.name())
	if id := properties["unique_id"]; id != 0 {
		place = "id" + strconv.FormatUint(id, 16)
		a.set(AttrUUID, strconv.FormatUint(id, 16))
	}
	d := Device{Name: busName(hardware), Nodes: []Node{kfd, render}, Attributes: a, place: place, sys: hardware.path}
	if link := s.drmLink(hardware, render); link != "" {
		d.Nodes = append(d.Nodes, alias(render, link))
	}
	for _, card := range s.class("drm") {
		if drmRole(card.name()) == "card" && card.hardware().path == hardware.path {
			if n, ok := s.node(card, "card"); ok {
				d.Nodes = append(d.Nodes, n)
			}
		}
	}
	return d, true
}

// parseProperties reads lines of a name and a number. Lines of another form are
// passed over.
func parseProperties(text string) map[string]uint64 {
	properties := make(map[string]uint64)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			properties[fields[0]] = n
		}
	}
	return properties
}
