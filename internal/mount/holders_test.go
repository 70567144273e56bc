package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

func TestHolders(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root to mount and to make nodes")
	}
	dev := t.TempDir()
	node, other, link := filepath.Join(dev, "modem"), filepath.Join(dev, "other"), filepath.Join(dev, "link")
	paths := []string{node, other, link, filepath.Join(dev, "absent")}
	holders := func() []Holder {
		t.Helper()
		found, err := Holders(paths)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := holders(); len(found) != 0 {
		t.Errorf("holders before any: %v", found)
	}
	first := elsewhereDo(t, `mount -t tmpfs tmpfs "$1"; mknod "$1/modem" c 188 7; ln -s modem "$1/link"; : >"$1/other"`, dev)
	const hostile = `printf 'a\033[2J\nb\377' >/proc/$$/comm`
	second := elsewhereDo(t, `mount -t tmpfs tmpfs "$1"; mknod "$1/other" b 259 300; `+hostile, dev)
	// What lies on a disk is not looked at, nor what is reached through a link.
	elsewhereDo(t, `mount -t tmpfs tmpfs "$1"; mkdir "$1/real"; mknod "$1/real/modem" c 188 7; mount -t tmpfs tmpfs "$2"; ln -s "$1/real" "$2/x"`, dev, t.TempDir())
	found := holders()
	want := map[int]Holder{
		first:  {PID: first, Comm: "sh", Path: node, Type: "c", Major: 188, Minor: 7},
		second: {PID: second, Comm: "a?[2J?b?", Path: other, Type: "b", Major: 259, Minor: 300},
	}
	if len(found) != len(want) {
		t.Fatalf("holders are %+v", found)
	}
	for _, h := range found {
		if h != want[h.PID] {
			t.Errorf("%+v, want %+v", h, want[h.PID])
		}
	}
}

func TestOfContainer(t *testing.T) {
	entries := []entry{
		{point: "/", fsType: "ext4"}, {point: "/dev", fsType: "tmpfs"}, {point: "/dev/bus", fsType: "fuse.hostile"},
		{point: "/dev/over", fsType: "fuse"}, {point: "/dev/over", fsType: "tmpfs"}, {point: "/dev/node", fsType: "devtmpfs"},
		{point: "/host", fsType: "devtmpfs"},
	}
	for path, want := range map[string]bool{
		"/dev/x": true, "/dev": true, "/dev2/x": false, "/x": false, "/dev/bus/usb/001": false, "/dev/busy": true, "/dev/over/x": true, "/dev/node": true, "/host/ttyUSB0": false,
	} {
		if ofContainer(entries, path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
}
