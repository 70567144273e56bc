package device

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// fixture is a made host: sysfs, /dev and /proc below a directory. Its device
// nodes are real ones, of numbers that nobody opens.
type fixture struct {
	testing.TB
	root string
}

func newFixture(t testing.TB) *fixture {
	f := &fixture{TB: t, root: t.TempDir()}
	probe := filepath.Join(f.root, "probe")
	if err := unix.Mknod(probe, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); errors.Is(err, unix.EPERM) {
		testenv.Lacks(t, "making device nodes takes root")
	} else if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(probe); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"dev", "sys", "proc"} {
		f.dir(dir)
	}
	return f
}

func (f *fixture) host() Host { return Host{Root: f.root} }

func (f *fixture) path(name string) string { return filepath.Join(f.root, name) }

func (f *fixture) dir(name string) {
	f.Helper()
	if err := os.MkdirAll(f.path(name), 0o755); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) file(name, content string) {
	f.Helper()
	f.dir(filepath.Dir(name))
	if err := os.WriteFile(f.path(name), []byte(content), 0o644); err != nil {
		f.Fatal(err)
	}
}

// attrs writes files of a directory: name, content, name, content …
func (f *fixture) attrs(dir string, pairs ...string) {
	f.Helper()
	for i := 0; i < len(pairs); i += 2 {
		f.file(dir+"/"+pairs[i], pairs[i+1]+"\n")
	}
}

func (f *fixture) link(name, target string) {
	f.Helper()
	f.dir(filepath.Dir(name))
	if err := os.Symlink(target, f.path(name)); err != nil && !errors.Is(err, os.ErrExist) {
		f.Fatal(err)
	}
}

// to makes a link with a relative target, as sysfs and udev do.
func (f *fixture) to(name, target string) {
	f.Helper()
	rel, err := filepath.Rel(filepath.Dir("/"+name), "/"+target)
	if err != nil {
		f.Fatal(err)
	}
	f.link(name, rel)
}

func (f *fixture) node(name, kind string, major, minor uint32) {
	f.Helper()
	f.dir(filepath.Dir(name))
	mode := uint32(unix.S_IFCHR)
	if kind == "b" {
		mode = unix.S_IFBLK
	}
	if err := unix.Mknod(f.path(name), mode|0o660, int(unix.Mkdev(major, minor))); err != nil {
		f.Fatal(err)
	}
}

// device makes a device of a class with its node: sys is its directory below
// sys/devices.
func (f *fixture) device(sys, class, devname, number string) {
	f.Helper()
	kind, dir := "c", "char"
	if class == "block" {
		kind, dir = "b", "block"
	}
	full := "sys/devices/" + sys
	var major, minor uint32
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		f.Fatal(err)
	}
	f.attrs(full, "dev", number, "uevent", fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=%s", major, minor, devname))
	f.to(full+"/subsystem", "sys/class/"+class)
	f.to("sys/class/"+class+"/"+filepath.Base(sys), full)
	f.to("sys/dev/"+dir+"/"+number, full)
	f.node("dev/"+devname, kind, major, minor)
}

// behind links a class device to its hardware.
func (f *fixture) behind(sys, hardware string) {
	f.Helper()
	f.to("sys/devices/"+sys+"/device", "sys/devices/"+hardware)
}

const bus = "pci0000:00/"

func (f *fixture) pci(sys, vendor, product, driver string) {
	f.Helper()
	f.attrs("sys/devices/"+sys, "vendor", "0x"+vendor, "device", "0x"+product)
	f.dir("sys/bus/pci/drivers/" + driver)
	f.to("sys/devices/"+sys+"/driver", "sys/bus/pci/drivers/"+driver)
	f.to("sys/devices/"+sys+"/subsystem", "sys/bus/pci")
	f.to("sys/bus/pci/devices/"+filepath.Base(sys), "sys/devices/"+sys)
	f.to("sys/bus/pci/drivers/"+driver+"/"+filepath.Base(sys), "sys/devices/"+sys)
}

// usb makes a USB device behind a controller at 0000:00:14.0 and its node.
func (f *fixture) usb(port string, number int, vendor, product, maker, model, serial string) string {
	f.Helper()
	sys := bus + "0000:00:14.0/usb1/" + port
	devname := fmt.Sprintf("bus/usb/001/%03d", number)
	minor := fmt.Sprintf("189:%d", number-1)
	f.device(sys, "usb_device", devname, minor)
	f.attrs("sys/devices/"+sys, "idVendor", vendor, "idProduct", product, "bDeviceClass", "00",
		"busnum", "1", "devnum", fmt.Sprint(number), "manufacturer", maker, "product", model)
	if serial != "" {
		f.attrs("sys/devices/"+sys, "serial", serial)
	}
	f.to("sys/bus/usb/devices/"+port, "sys/devices/"+sys)
	return sys
}

// usbInterface makes an interface of a USB device.
func (f *fixture) usbInterface(usb, number, driver string) string {
	f.Helper()
	sys := usb + "/" + filepath.Base(usb) + ":1." + strings.TrimLeft(number[:1], "0") + number[1:]
	f.attrs("sys/devices/"+sys, "bInterfaceNumber", number)
	f.dir("sys/bus/usb/drivers/" + driver)
	f.to("sys/devices/"+sys+"/driver", "sys/bus/usb/drivers/"+driver)
	f.to("sys/bus/usb/devices/"+filepath.Base(sys), "sys/devices/"+sys)
	return sys
}

// library makes a shared library's file and the links to it.
func (f *fixture) library(root, file string, links ...string) {
	f.Helper()
	f.file(root+file, "not really ELF")
	target := filepath.Base(file)
	for _, l := range links {
		f.link(root+filepath.Dir(file)+"/"+l, target)
		target = l
	}
}

// cache writes a library cache of a name and a path, a name and a path …
func (f *fixture) cache(root string, pairs ...string) {
	f.Helper()
	var entries []ldcache.Entry
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, ldcache.Entry{Name: pairs[i], Path: pairs[i+1], Flags: 0x303})
	}
	ldcache.Sort(entries)
	data, err := ldcache.Marshal(entries, binary.LittleEndian, "test")
	if err != nil {
		f.Fatal(err)
	}
	f.file(root+"etc/ld.so.cache", string(data))
}

// find finds what a match, as it is written, asks for.
func (f *fixture) find(match string) []Device {
	f.Helper()
	return find(f.TB, f.host(), match)
}

func find(t testing.TB, h Host, match string) []Device {
	t.Helper()
	m, err := ParseMatch(match)
	if err != nil {
		t.Fatal(err)
	}
	found, err := h.Find(context.Background(), m)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// summary is what matters of devices: kind, name, and nodes with the host's path
// where it differs.
func summary(devices []Device) string {
	var b strings.Builder
	for _, d := range devices {
		fmt.Fprintf(&b, "%s %s:", d.Kind, d.Name)
		for _, n := range d.Nodes {
			b.WriteString(" " + n.Path)
			if n.HostPath != n.Path {
				b.WriteString("<" + n.HostPath)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func same(t testing.TB, got, want string) {
	t.Helper()
	want = strings.ReplaceAll(strings.TrimPrefix(want, "\n"), "\t", "")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
