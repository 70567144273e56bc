package device

import (
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxAttribute is the length, in bytes, to which a value that hardware gave is cut.
const maxAttribute = 256

// sysdev is a device's directory in sysfs, without links in its path.
type sysdev struct {
	*tree
	path string // "" if there is none
}

// sysdev is the device that a path of sysfs leads to.
func (s *scan) sysdev(name string) sysdev {
	real := s.resolve(name)
	if !strings.HasPrefix(real, "/sys/") {
		real = ""
	}
	return sysdev{s.tree, real}
}

// class lists the devices of a class of the kernel's.
func (s *scan) class(name string) []sysdev {
	var all []sysdev
	for _, entry := range s.names("/sys/class/" + name) {
		if d := s.sysdev(path.Join("/sys/class", name, entry)); d.path != "" {
			all = append(all, d)
		}
	}
	return all
}

// name is the kernel's name of the device.
func (d sysdev) name() string { return path.Base(d.path) }

// attr reads an attribute: "" if there is none.
func (d sysdev) attr(name string) string {
	if d.path == "" {
		return ""
	}
	return clean(d.read(path.Join(d.path, name)))
}

// hex reads an attribute that is a hexadecimal number of up to 16 bits, with or
// without 0x, as four digits; "" if it is something else.
func (d sysdev) hex(name string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(d.attr(name), "0x"), 16, 16)
	if err != nil {
		return ""
	}
	return hex4(n)
}

func hex4(n uint64) string {
	s := strconv.FormatUint(n, 16)
	return strings.Repeat("0", max(0, 4-len(s))) + s
}

// base is the last part of what a link of the device's leads to: that of
// "driver" names the driver.
func (d sysdev) base(link string) string {
	if d.path == "" {
		return ""
	}
	target := d.target(path.Join(d.path, link))
	if target == "" {
		return ""
	}
	return clean(path.Base(target))
}

// up finds the device itself or the nearest above it that is as asked.
func (d sysdev) up(is func(sysdev) bool) sysdev {
	for p := d.path; strings.HasPrefix(p, "/sys/devices/"); p = path.Dir(p) {
		if at := (sysdev{d.tree, p}); is(at) {
			return at
		}
	}
	return sysdev{d.tree, ""}
}

// pci is the PCI function that the device is, or is behind.
func (d sysdev) pci() sysdev {
	return d.up(func(d sysdev) bool { return isPCI(d.name()) && d.exists(path.Join(d.path, "vendor")) })
}

// usb is the USB device that the device is, or is a part of.
func (d sysdev) usb() sysdev {
	return d.up(func(d sysdev) bool { return d.exists(path.Join(d.path, "idVendor")) })
}

// usbInterface is the interface of a USB device that the device is behind.
func (d sysdev) usbInterface() sysdev {
	return d.up(func(d sysdev) bool { return d.exists(path.Join(d.path, "bInterfaceNumber")) })
}

// isPCI tells a PCI address: domain:bus:device.function, in hexadecimal, the
// domain of four digits or more.
func isPCI(s string) bool {
	domain, rest, _ := strings.Cut(s, ":")
	return len(domain) >= 4 && len(domain) <= 8 && isHex(domain) && len(rest) == 7 &&
		isHex(rest[0:2]) && rest[2] == ':' && isHex(rest[3:5]) && rest[5] == '.' && rest[6] >= '0' && rest[6] <= '7'
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

// node is the device's node, if /dev has it with the number that sysfs tells.
func (s *scan) node(d sysdev, role string) (Node, bool) {
	number := d.attr("dev")
	if number == "" {
		return Node{}, false
	}
	name := d.name()
	for line := range strings.Lines(d.read(path.Join(d.path, "uevent"))) {
		if v, ok := strings.CutPrefix(line, "DEVNAME="); ok {
			name = strings.TrimSuffix(v, "\n")
		}
	}
	n, ok := s.nodeAt(path.Join("/dev", path.Join("/", name)))
	n.Role = role
	return n, ok && number == strconv.FormatUint(uint64(n.Major), 10)+":"+strconv.FormatUint(uint64(n.Minor), 10)
}

// nodeAt is the node of that path, which is no link.
func (s *scan) nodeAt(name string) (Node, bool) {
	st, ok := s.stat(name, false)
	if !ok || !utf8.ValidString(name) {
		return Node{}, false
	}
	n := Node{
		Path: name, HostPath: name,
		Major: unix.Major(uint64(st.Rdev)), Minor: unix.Minor(uint64(st.Rdev)),
		Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
		n.Type = "b"
	case unix.S_IFCHR:
		n.Type = "c"
	default:
		return Node{}, false
	}
	return n, true
}

// describe notes what is known of d's hardware.
func describe(d sysdev) map[string]string {
	a := attributes{}
	a.set(AttrKernel, clean(d.name()))
	a.set(AttrDriver, d.driver())
	if pci := d.pci(); pci.path != "" {
		a.set(AttrPCI, pci.name())
		a.set(AttrVendor, pci.hex("vendor"))
		a.set(AttrProduct, pci.hex("device"))
	}
	if usb := d.usb(); usb.path != "" {
		a.set(AttrVendor, usb.hex("idVendor"))
		a.set(AttrProduct, usb.hex("idProduct"))
		a.set(AttrSerial, usb.attr("serial"))
		a.set(AttrPort, clean(usb.name()))
		a.set(AttrModel, clean(usb.attr("manufacturer")+" "+usb.attr("product")))
	}
	return a
}

// driver is the driver of the device or of the nearest above it that has one, but
// not that of the bridge or hub it is behind.
func (d sysdev) driver() string {
	return d.up(func(d sysdev) bool {
		return d.base("driver") != "" || isPCI(d.name()) || d.exists(path.Join(d.path, "idVendor"))
	}).base("driver")
}

// attributes are those of a Device; what is empty is not there.
type attributes map[string]string

func (a attributes) set(name, value string) {
	if value != "" {
		a[name] = value
	}
}

// clean makes of what hardware or a driver says something to print: one line of
// valid UTF-8, no control characters, no spaces around it, not endless.
func clean(s string) string {
	s, _, _ = strings.Cut(strings.Trim(s, "\n\x00 \t"), "\n")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > maxAttribute {
		s = strings.ToValidUTF8(s[:maxAttribute], "")
	}
	return strings.TrimSpace(s)
}
