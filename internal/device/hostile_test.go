package device

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/cdi"
)

// wellFormed checks what must hold of any devices: names that are unique and
// CDI's, paths below /dev, edits that are valid.
func wellFormed(t testing.TB, h Host, devices []Device) {
	t.Helper()
	seen := make(map[string]bool)
	for _, d := range devices {
		key := string(d.Kind) + "=" + d.Name
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		for name, value := range d.Attributes {
			if value == "" || len(value) > maxAttribute || clean(value) != value {
				t.Errorf("%s: attribute %s is %q", key, name, value)
			}
		}
		for _, n := range d.Nodes {
			if !strings.HasPrefix(n.Path, "/dev/") || filepath.Clean(n.Path) != n.Path || len(filepath.Base(n.Path)) > unix.NAME_MAX {
				t.Errorf("%s: node %q", key, n.Path)
			}
		}
		if err := cdi.Validate(h.Spec("fairlead.dev/"+string(d.Kind), []Device{d})); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// What hardware says of itself, and a sysfs that is broken in every way, neither
// hangs nor confuses.
func TestHostileTree(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("long ", 60)
	sys := f.usb("1-1", 5, "0403", "6001", "../../../etc\x1b[31m", "a/b::c\xff\xfe", long)
	port := f.usbInterface(sys, "00", "ftdi_sio")
	f.device(port+"/ttyUSB0/tty/ttyUSB0", "tty", "ttyUSB0", "188:0")
	f.usb("1-2", 6, "0403", "6001", long, long, long)
	f.usb("1-3", 7, "zzzz", "6001", "", "", "") // no number
	f.device("virtual/misc/kvm", "misc", "kvm", "10:232")
	f.attrs("sys/devices/virtual/misc/kvm", "dev", "10:233") // not the node's number
	f.device("virtual/misc/fuse", "misc", "fuse", "10:229")
	f.attrs("sys/devices/virtual/misc/fuse", "uevent", "DEVNAME=../../fuse\nMAJOR=x\n\x00") // stays below /dev
	f.device("virtual/misc/tun", "misc", "net/tun", "10:200")
	if err := os.Remove(f.path("dev/net/tun")); err != nil {
		t.Fatal(err)
	}
	f.link("dev/net/tun", "/dev/fuse") // a link is no node

	f.link("sys/class/drm", "drm")
	f.link("sys/class/sound/card0", "../../../sys/class/sound/card0")
	f.link("sys/class/tty/ttyUSB9", "/etc/passwd")
	f.file("sys/class/video4linux", "a file")
	f.link("dev/disk/by-id/loop", "loop")
	f.link("dev/disk/by-id/out", "../../../../../../etc/passwd")
	f.link("sys/dev/block/8:0", "../../devices/gone")
	f.dir("sys/dev/char/1:1")
	f.dir("sys/dev/char/" + strings.Repeat("9", 200))
	fifo := f.path("sys/module/nvidia/version")
	f.dir("sys/module/nvidia")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f.file("proc/driver/nvidia/gpus/0000:41:00.0/information", strings.Repeat("Device Minor: 99999999999\n\xff\x00:", 9999))
	f.node("dev/nvidia"+strings.Repeat("1", 30), "c", 195, 9)
	f.file("etc/ld.so.cache", "glibc-ld.so.cache1.1\xff\xff\xff\xff")

	all, err := f.host().List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, f.host(), all)
	if found := f.find("kvm"); len(found) != 0 {
		t.Errorf("a node of another number is taken for /dev/kvm:\n%s", summary(found))
	}
	same(t, summary(f.find("fuse")), "fuse fuse: /dev/fuse\n")
	same(t, summary(f.find("tun")), "")
	if found := f.find("usb"); len(found) != 2 {
		t.Errorf("USB devices:\n%s", summary(found))
	}
	same(t, summary(f.find("/dev/disk/by-id/*")), "")
	same(t, summary(f.find("/dev/net/tun")), "fuse fuse: /dev/net/tun</dev/fuse\n")
}

func TestTreeStaysInside(t *testing.T) {
	outer := t.TempDir()
	root := filepath.Join(outer, "root")
	for name, content := range map[string]string{"secret": "outside", "root/file": "inside"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(outer, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(outer, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"up": "../secret", "absolute": filepath.Join(outer, "secret"), "self": "/proc/self/root", "good": "/file"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := openTree(root)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	for _, name := range []string{"/up", "/absolute", "/self", "/../secret"} {
		if got := tree.read(name); got != "" {
			t.Errorf("%s reads %q", name, got)
		}
		if got := tree.resolve(name); got != "" {
			t.Errorf("%s leads to %q", name, got)
		}
	}
	if tree.read("/good") != "inside" || tree.resolve("/good") != "/file" {
		t.Errorf("an absolute link within: %q, %q", tree.read("/good"), tree.resolve("/good"))
	}
	if _, err := (Host{Root: filepath.Join(outer, "secret")}).List(context.Background()); err == nil {
		t.Error("a root that is a file is no error")
	}
}

func TestRealHost(t *testing.T) {
	all, err := Host{}.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, Host{}, all)
	for path, want := range map[string]string{
		"/dev/null": "char null: /dev/null\n", "/dev/zero": "char zero: /dev/zero\n", "/dev/fuse": "fuse fuse: /dev/fuse\n",
		"/dev/kvm": "kvm kvm: /dev/kvm\n", "/dev/net/tun": "tun tun: /dev/net/tun\n", "/dev/loop0": "block loop0: /dev/loop0\n",
	} {
		if _, err := os.Stat(path); err != nil {
			continue
		}
		same(t, summary(find(t, Host{}, path)), want)
		if kind, name, _ := strings.Cut(strings.SplitN(want, ":", 2)[0], " "); kind != "char" {
			same(t, summary(find(t, Host{}, kind+":"+name)), want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (Host{}).List(ctx); err == nil {
		t.Error("a list after the end of ctx is no error")
	}
}

func FuzzSafeName(f *testing.F) {
	for _, s := range []string{"", "a", "pci-0000:00:02.0", "-_.", "\xff\xfe", strings.Repeat("x", 99), "é/../"} {
		f.Add(s, "b")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		name := safeName(a, b)
		if name == "" {
			return
		}
		if _, _, _, err := cdi.ParseDevice("fairlead.dev/x=" + name); err != nil {
			t.Fatalf("%q, %q: %v", a, b, err)
		}
	})
}

func FuzzSettle(f *testing.F) {
	f.Add("a\na\nb", "1\n1\n2")
	f.Add("a\na\na-1\n", "1\n2")
	f.Fuzz(func(t *testing.T, names, places string) {
		var devices []Device
		place := strings.Split(places, "\n")
		for i, name := range strings.Split(names, "\n") {
			devices = append(devices, Device{
				Name: safeName(name), place: place[i%len(place)], sys: strings.Repeat("x", i), Nodes: []Node{{HostPath: "/dev/x"}},
			})
		}
		settle(devices)
		seen := make(map[string]bool)
		for _, d := range devices {
			if seen[d.Name] || d.Name == "" {
				t.Fatalf("%q, %q: %q is there twice, or empty", names, places, d.Name)
			}
			seen[d.Name] = true
		}
	})
}

func FuzzParseGPU(f *testing.F) {
	f.Add("Model: \t A100\nGPU UUID: \t GPU-1\nBus Location: \t 0000:41:00.0\nDevice Minor: 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		g := parseGPU(text)
		if g.pci != "" && !isPCI(g.pci) || g.minor != "" && !isNumber(g.minor) || clean(g.model) != g.model {
			t.Fatalf("%q is read as %+v", text, g)
		}
		parseProperties(text)
	})
}
