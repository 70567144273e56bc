package device

import (
	"path"
	"strings"
)

// service is the finder of a device that the kernel offers without hardware: it
// has one name everywhere.
func service(name string) func(*scan) []Device {
	return func(s *scan) []Device {
		d := s.sysdev("/sys/class/" + name)
		n, ok := s.node(d, "")
		if !ok {
			return nil
		}
		return []Device{{Name: safeName(d.name()), Nodes: []Node{n}, Attributes: attributes{AttrKernel: d.name()}, sys: d.path}}
	}
}

// every finds all devices of a type, "char" or "block", that sysfs knows.
func (s *scan) every(kind string) []Device {
	var all []Device
	for _, number := range s.names("/sys/dev/" + kind) {
		d := s.sysdev(path.Join("/sys/dev", kind, number))
		n, ok := s.node(d, "")
		if !ok || n.Type != kind[:1] {
			continue
		}
		all = append(all, s.single(d, n))
	}
	return all
}

// single is a device of one node.
func (s *scan) single(d sysdev, n Node) Device {
	a := describe(d)
	name := s.nodeName(d, n)
	if n.Type == "b" {
		attributes(a).set(AttrModel, d.whole().attr("device/model"))
		attributes(a).set(AttrSerial, d.diskSerial())
	}
	return Device{Name: name, Nodes: []Node{n}, Attributes: a, place: clean(d.name()), sys: d.path}
}

// nodeName names a node for what it belongs to.
func (s *scan) nodeName(d sysdev, n Node) string {
	if n.Type == "b" {
		return s.diskName(d, n)
	}
	for _, link := range s.links[n.HostPath] {
		if strings.HasSuffix(path.Dir(link), "/by-id") {
			return safeName(path.Base(link))
		}
	}
	// A number in the kernel's name is the order of finding. It says nothing that
	// lasts where the hardware can be told.
	if kernel := strings.TrimRight(d.name(), "0123456789"); kernel != d.name() {
		if usb := d.usb(); usb.path != "" {
			return safeName("usb", usbID(usb), d.usbInterface().attr("bInterfaceNumber"), kernel)
		}
		if pci := d.pci(); pci.path != "" {
			return safeName("pci", pci.name(), kernel)
		}
	}
	return safeName(strings.ReplaceAll(strings.TrimPrefix(n.HostPath, "/dev/"), "/", "-"))
}

// diskName names a disk or a partition of one.
func (s *scan) diskName(d sysdev, n Node) string {
	if link := s.diskLink(n.HostPath); link != "" {
		return safeName(path.Base(link))
	}
	disk := d.whole()
	part := ""
	if number := d.attr("partition"); number != "" {
		part = "part" + number
	}
	if uuid := disk.attr("dm/uuid"); uuid != "" {
		return safeName("dm-uuid", uuid, part)
	}
	if uuid := disk.attr("md/uuid"); uuid != "" {
		return safeName("md-uuid", uuid, part)
	}
	for _, attr := range []string{"wwid", "device/wwid", "device/cid"} {
		if id := disk.attr(attr); id != "" {
			return safeName(strings.Join(strings.Fields(id), "_"), part)
		}
	}
	if serial := disk.diskSerial(); serial != "" {
		return safeName(disk.bus(), serial, part)
	}
	if bus := busName(disk.up(func(d sysdev) bool { return d.base("subsystem") != "block" && d.base("subsystem") != "" })); bus != "" {
		return safeName(bus, part)
	}
	return safeName(clean(d.name()))
}

// whole is the disk that a partition is of, or the device itself.
func (d sysdev) whole() sysdev {
	if d.attr("partition") == "" {
		return d
	}
	return sysdev{d.tree, path.Dir(d.path)}
}

// bus is the subsystem of the hardware that a disk is.
func (d sysdev) bus() string {
	return sysdev{d.tree, d.tree.resolve(path.Join(d.path, "device"))}.base("subsystem")
}

// diskSerial is a disk's serial number: virtio and NVMe tell it.
func (d sysdev) diskSerial() string {
	disk := d.whole()
	if s := disk.attr("serial"); s != "" {
		return s
	}
	return disk.attr("device/serial")
}
