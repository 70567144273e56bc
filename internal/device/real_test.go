package device

import (
	"context"
	"path"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNVIDIANameLasts: the driver tells the UUID of a GPU only once somebody has
// used it, so that the name of a GPU, and of its slices, cannot be made of it.
func TestNVIDIANameLasts(t *testing.T) {
	f := nvidiaHost(t, "")
	used := names(f.find("nvidia"))
	f.file("proc/driver/nvidia/gpus/0000:41:00.0/information",
		"Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nBus Location: \t 0000:41:00.0\nDevice Minor: \t 0\n")
	same(t, names(f.find("nvidia")), used)
	f.file("proc/driver/nvidia/gpus/0000:41:00.0/information", "GPU UUID: \t "+uuid+"\nBus Location: \t 0000:41:00.0\nDevice Minor: \t 0\n")
	if d := f.find("nvidia:" + uuid); len(d) != 2 {
		t.Errorf("by its UUID:\n%s", summary(d)) // the GPU and its slice
	}
}

// TestWSL: in Windows' Linux there is one node for every GPU, and the driver's
// files are in a directory of Windows' own, beside those of other makers.
func TestWSL(t *testing.T) {
	f := newFixture(t)
	f.device("virtual/misc/dxg", "misc", "dxg", "10:125")
	const store, other = "usr/lib/wsl/drivers/nv_dispsi.inf_amd64_7cc7/", "usr/lib/wsl/drivers/iigd_dch.inf_amd64_7365/"
	same(t, names(f.find("nvidia")), "")
	for _, name := range []string{
		store + "libcuda.so.1.1", store + "libnvidia-ml.so.1", store + "nvcubins.bin", store + "nvidia-smi", store + "nv.inf",
		other + "libigc.so", "usr/lib/wsl/lib/libdxcore.so",
	} {
		f.file(name, "x")
	}
	d := f.find("nvidia")
	same(t, summary(d), "nvidia dxg: /dev/dxg\n")
	e := f.host().Edits(d[0])
	got := ""
	for _, m := range e.Mounts {
		got += m.HostPath + " " + m.ContainerPath + "\n"
	}
	for _, arg := range e.Hooks[0].Args[1:] {
		got += arg + "\n"
	}
	same(t, got, `
		/`+store+`nvidia-smi /usr/bin/nvidia-smi
		/`+store+`nvcubins.bin /`+store+`nvcubins.bin
		/usr/lib/wsl/lib/libdxcore.so /usr/lib/wsl/lib/libdxcore.so
		/`+store+`libcuda.so.1.1 /`+store+`libcuda.so.1.1
		/`+store+`libnvidia-ml.so.1 /`+store+`libnvidia-ml.so.1
		update-ldcache
		--folder=/usr/lib/wsl/lib
		--folder=/`+path.Dir("/" + store)[1:]+`
	`)
}

func names(devices []Device) string {
	s := ""
	for _, d := range devices {
		s += d.Name + "\n"
	}
	return s
}

// TestBehindUSB: a display adapter and a sound card of USB are named for what
// they are, not for the USB controller of the machine.
func TestBehindUSB(t *testing.T) {
	f := newFixture(t)
	f.pci(bus+"0000:00:14.0", "8086", "a36d", "xhci_hcd")
	dock := f.usb("1-4", 5, "17e9", "6006", "DisplayLink", "Dock", "D42")
	screen := f.usbInterface(dock, "00", "udl")
	f.device(screen+"/drm/card1", "drm", "dri/card1", "226:1")
	f.behind(screen+"/drm/card1", screen)
	same(t, summary(f.find("dri")), "dri usb-DisplayLink_Dock_D42-00: /dev/dri/card1\n")
}

// TestUSBSerialNumbers: as udev does, which makes the links, a serial number that
// is not printable ASCII or holds a comma is taken for none; one that is odd in
// other ways is spelt as in the link.
func TestUSBSerialNumbers(t *testing.T) {
	for serial, want := range map[string]string{
		"A,B":            "usb-FTDI_UART-if00",
		"\x01\x02garble": "usb-FTDI_UART-if00",
		"\xfc\xfe":       "usb-FTDI_UART-if00",
		"A B/C(1)":       "usb-FTDI_UART_A_B_C_1_-if00",
		"A+B=C@D:1.0#2":  "usb-FTDI_UART_A+B=C@D:1.0#2-if00",
	} {
		f := newFixture(t)
		acm := f.usbInterface(f.usb("1-2", 6, "0403", "6001", "FTDI", "UART", serial), "00", "cdc_acm")
		f.device(acm+"/tty/ttyACM0", "tty", "ttyACM0", "166:0")
		d := f.find("serial")
		if len(d) != 1 || d[0].Nodes[0].Path != "/dev/serial/by-id/"+want || d[0].Name != safeName(want) {
			t.Errorf("%q: %s", serial, summary(d))
		}
	}
}

// TestFollowUnasked: NVIDIA's nodes, and those that somebody makes by hand, come
// without a word of the kernel's.
func TestFollowUnasked(t *testing.T) {
	f := newFixture(t)
	h := f.host()
	h.interval, h.unasked = time.Hour, 5*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	found, err := h.Follow(ctx, Match{Kind: NVIDIA})
	if err != nil {
		t.Fatal(err)
	}
	awaitFound(t, found, func(d []Device) bool { return len(d) == 0 })
	f.node("dev/nvidiactl", "c", 195, 255)
	awaitFound(t, found, func(d []Device) bool { return len(d) == 1 })
	cancel()
	for range found {
	}
}

// TestCutEvent: a message that is longer than there is room for is one that was
// lost.
func TestCutEvent(t *testing.T) {
	kernel := &unix.SockaddrNetlink{Groups: kernelGroup}
	long := make([]byte, maxUevent)
	if e, ok := message(long, unix.MSG_TRUNC, kernel); !ok || e.Action != Rescan {
		t.Errorf("from the kernel: %+v, %v", e, ok)
	}
	if e, ok := message(long, unix.MSG_TRUNC, &unix.SockaddrNetlink{Pid: 7}); ok {
		t.Errorf("from somebody else: %+v", e)
	}
}
