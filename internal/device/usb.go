package device

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// hubClass is the device class of USB hubs.
const hubClass = "09"

// usbDevices finds USB devices as libusb opens them. A hub is of no use in a
// container.
func (s *scan) usbDevices() []Device {
	var all []Device
	for _, entry := range s.names("/sys/bus/usb/devices") {
		d := s.sysdev(path.Join("/sys/bus/usb/devices", entry))
		vendor, product := d.hex("idVendor"), d.hex("idProduct")
		if vendor == "" || product == "" || d.attr("bDeviceClass") == hubClass {
			continue // an interface, or a hub
		}
		n, ok := s.node(d, "")
		if !ok {
			continue
		}
		all = append(all, Device{
			Name: safeName("usb", vendor, product, usbSerial(d)), Nodes: []Node{n}, Attributes: describe(d),
			place: "port" + clean(d.name()), sys: d.path,
		})
	}
	return all
}

// serialPorts finds serial ports with hardware behind them: those of USB and
// those of the machine's UARTs.
func (s *scan) serialPorts() []Device {
	var all []Device
	for _, d := range s.class("tty") {
		usb := d.usb()
		if usb.path == "" && (d.attr("type") == "" || d.attr("type") == "0") {
			continue // a console, a terminal, a UART that is not there
		}
		n, ok := s.node(d, "")
		if !ok {
			continue
		}
		link := s.linkIn("/dev/serial/by-id", n.HostPath)
		if usb.path != "" && link == "" {
			link = "/dev/serial/by-id/" + serialID(d, usb)
		}
		all = append(all, s.linked(d, n, link))
	}
	return all
}

// serialID is the name that udev gives a serial port of USB.
func serialID(d, usb sysdev) string {
	id := "usb-" + usbID(usb)
	if number := d.usbInterface().attr("bInterfaceNumber"); number != "" {
		id += "-if" + udevName(number)
	}
	if port := d.attr("device/port_number"); port != "" {
		id += "-port" + udevName(port)
	}
	return id
}

// linked is a device of one node which has, or should have, a lasting link. The
// node is there under both paths.
func (s *scan) linked(d sysdev, n Node, link string) Device {
	v := s.single(d, n)
	if usb := d.usb(); usb.path != "" {
		v.place = "port" + clean(usb.name())
	}
	if link == "" {
		return v
	}
	v.Name = safeName(path.Base(link))
	if len(path.Base(link)) > unix.NAME_MAX {
		return v // what the hardware calls itself is too long for a path
	}
	v.Nodes = []Node{alias(n, link), n}
	return v
}

// cameras finds Video4Linux nodes. A camera often has two, of which the second
// carries metadata only.
func (s *scan) cameras() []Device {
	var all []Device
	for _, d := range s.class("video4linux") {
		n, ok := s.node(d, "")
		if !ok {
			continue
		}
		link := s.linkIn("/dev/v4l/by-id", n.HostPath)
		usb := d.usb()
		if kernel := strings.TrimRight(d.name(), "0123456789"); usb.path != "" && link == "" && d.attr("index") != "" {
			link = "/dev/v4l/by-id/usb-" + usbID(usb) + "-" + udevName(clean(kernel)) + "-index" + udevName(d.attr("index"))
		}
		v := s.linked(d, n, link)
		if link == "" {
			v.Name = safeName(busName(d.hardware()), "index"+d.attr("index"))
		}
		if model := d.attr("name"); model != "" {
			v.Attributes[AttrModel] = model
		}
		all = append(all, v)
	}
	return all
}

// soundCards finds the cards of ALSA with all of their nodes, and the timer that
// mixing in software needs.
func (s *scan) soundCards() []Device {
	var all []Device
	timer, hasTimer := forAll(s.node(s.sysdev("/sys/class/sound/timer"), "timer"))
	for _, card := range s.class("sound") {
		if number, ok := strings.CutPrefix(card.name(), "card"); !ok || !isNumber(number) {
			continue
		}
		hardware := card.hardware()
		d := Device{Name: busName(hardware), Attributes: describe(hardware), place: card.attr("id"), sys: card.path}
		if usb := hardware.usb(); usb.path != "" {
			d.place = "port" + clean(usb.name())
		}
		attributes(d.Attributes).set(AttrKernel, clean(card.name()))
		if d.Attributes[AttrModel] == "" {
			attributes(d.Attributes).set(AttrModel, card.attr("id"))
		}
		for _, entry := range s.names(card.path) {
			sub := sysdev{s.tree, path.Join(card.path, entry)}
			if n, ok := s.node(sub, soundRole(entry)); ok {
				d.Nodes = append(d.Nodes, n)
			}
		}
		if len(d.Nodes) > 0 && hasTimer {
			d.Nodes = append(d.Nodes, timer)
		}
		all = append(all, d)
	}
	return all
}

// soundRole says what a node of a card is: of controlC0 control, of pcmC0D3p
// pcm-D3p.
func soundRole(name string) string {
	i := strings.LastIndexByte(name, 'C')
	if i < 0 {
		return clean(name)
	}
	return safeName(name[:i], strings.TrimLeft(name[i+1:], "0123456789"))
}
