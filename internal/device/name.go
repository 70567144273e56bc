package device

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
)

// maxName is the length of a device's name in CDI, in bytes.
const maxName = 63

// safeName makes a CDI device name (CDI-050) of parts, with dashes between those
// that are not empty. What is not allowed in one becomes "_"; a name that is too
// long ends in a hash of the whole. It is "" if nothing remains.
func safeName(parts ...string) string {
	whole := strings.Join(compact(parts), "-")
	name := []byte(strings.ToValidUTF8(whole, "_"))
	for i, c := range name {
		if !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			name[i] = '_'
		}
	}
	short := strings.Trim(string(name), "-_.")
	if len(short) > maxName {
		sum := sha256.Sum256([]byte(whole))
		short = strings.TrimRight(short[:maxName-9], "-_.") + "-" + hex.EncodeToString(sum[:4])
	}
	return short
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func compact(parts []string) []string {
	var full []string
	for _, p := range parts {
		if p != "" {
			full = append(full, p)
		}
	}
	return full
}

// settle makes the names of devices of one kind unique. All that share a name
// get their place behind it (a USB port, a PCI address), so that it does not
// matter which of them was found first; where even that is the same, or unknown,
// a hash of where sysfs has them.
func settle(devices []Device) {
	apart := func(suffix func(Device) string) {
		count := make(map[string]int, len(devices))
		for _, d := range devices {
			count[d.Name]++
		}
		for i, d := range devices {
			if d.Name == "" || count[d.Name] > 1 {
				devices[i].Name = safeName(d.Name, suffix(d))
			}
		}
	}
	apart(func(d Device) string { return d.place })
	hash := func(d Device) string {
		sum := sha256.Sum256([]byte(d.sys + "\x00" + d.Nodes[0].HostPath))
		return hex.EncodeToString(sum[:4])
	}
	apart(hash)
	apart(hash) // a name that the second round made may have been taken
}

// busName names hardware by where it is on its bus: its PCI address, or for
// other buses (platform, ACPI, virtual) the name there. What is behind USB, where
// no place lasts, is named for what it is. It is "" for a device that is nowhere.
func busName(d sysdev) string {
	if usb := d.usb(); usb.path != "" {
		return safeName("usb", usbID(usb), d.usbInterface().attr("bInterfaceNumber"))
	}
	if pci := d.pci(); pci.path != "" {
		return safeName("pci", pci.name())
	}
	if d.path == "" {
		return ""
	}
	return safeName(d.base("subsystem"), d.name())
}

// usbID is the name that udev gives a USB device: maker, model and serial number
// as far as it tells them, its numbers otherwise (what udev calls ID_SERIAL).
// Links by id are made of it.
func usbID(d sysdev) string {
	maker, model := udevName(d.attr("manufacturer")), udevName(d.attr("product"))
	if maker == "" {
		maker = d.hex("idVendor")
	}
	if model == "" {
		model = d.hex("idProduct")
	}
	return strings.Join(compact([]string{maker, model, udevName(usbSerial(d))}), "_")
}

// usbSerial is the serial number of a USB device, if it is one that udev goes by:
// of ASCII, without control characters and commas.
func usbSerial(d sysdev) string {
	serial := strings.TrimSuffix(d.read(path.Join(d.path, "serial")), "\n")
	odd := func(r rune) bool { return r < ' ' || r > 0x7f || r == ',' }
	if strings.ContainsFunc(serial, odd) {
		return ""
	}
	return serial
}

// udevName replaces what udev replaces in the name of a link.
func udevName(s string) string {
	s = strings.Join(strings.Fields(s), "_")
	return strings.Map(func(r rune) rune {
		if r < 0x80 && !alphanumeric(byte(r)) && !strings.ContainsRune(`#+-.:=@_`, r) {
			return '_'
		}
		return r
	}, s)
}
