package device

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fairlead/fairlead/internal/testenv"

	"golang.org/x/sys/unix"
)

// deadline bounds the wait for what must happen.
const deadline = 30 * time.Second

// await reads events until one is as asked.
func await(t *testing.T, events <-chan Event, is func(Event) bool) Event {
	t.Helper()
	timeout := time.After(deadline)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the channel was closed")
			}
			if is(e) {
				return e
			}
		case <-timeout:
			t.Fatal("the event did not come")
		}
	}
}

// awaitFound reads what is found until it is as asked.
func awaitFound(t *testing.T, found <-chan []Device, is func([]Device) bool) []Device {
	t.Helper()
	timeout := time.After(deadline)
	var last []Device
	for {
		select {
		case d, ok := <-found:
			if !ok {
				t.Fatal("the channel was closed")
			}
			if last = d; is(d) {
				return d
			}
		case <-timeout:
			t.Fatalf("what was waited for was not found; the last was\n%s", summary(last))
		}
	}
}

// trigger has the kernel tell of /dev/null, with a mark of this test's own.
func trigger(t *testing.T, mark string) {
	t.Helper()
	const id = "f1e2d3c4-0000-4000-8000-000000000000"
	err := os.WriteFile("/sys/class/mem/null/uevent", []byte("change "+id+" MARK="+mark), 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, os.ErrNotExist) {
		testenv.Lacksf(t, "the kernel cannot be made to tell of a device: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func marked(mark string) func(Event) bool {
	return func(e Event) bool { return e.Env["SYNTH_ARG_MARK"] == mark }
}

func kernelOrSkip(t *testing.T) {
	t.Helper()
	socket, err := listenKernel()
	if err != nil || !initialNamespace() {
		testenv.Lacksf(t, "the kernel does not tell of devices here: %v", err)
	}
	socket.Close()
}

func TestWatch(t *testing.T) {
	kernelOrSkip(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := Host{}.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Action != Rescan {
		t.Fatalf("the first event is %s, want rescan", e.Action)
	}
	trigger(t, "watch")
	e := await(t, events, marked("watch"))
	if e.Action != Change || e.DevPath != "/devices/virtual/mem/null" || e.Subsystem != "mem" || e.Node != "/dev/null" || e.Major != 1 || e.Minor != 3 {
		t.Errorf("event %+v", e)
	}
	cancel()
	for range events { // closed at the end, whether or not somebody reads
	}
}

// What another process sends is not the kernel's word.
func TestForgedEvent(t *testing.T) {
	kernelOrSkip(t)
	socket, err := listenKernel()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var name unix.Sockaddr
	if err := conn.Control(func(fd uintptr) { name, err = unix.Getsockname(int(fd)) }); err != nil || name == nil {
		t.Fatal(err)
	}
	forger, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forger)
	forged := []byte("add@/devices/forged\x00ACTION=add\x00DEVPATH=/devices/forged\x00")
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: name.(*unix.SockaddrNetlink).Pid}
	if err := unix.Sendto(forger, forged, 0, to); err != nil {
		t.Fatal(err)
	}
	trigger(t, "forged")
	events, done := make(chan Event), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		receive(ctx, socket, events)
	}()
	await(t, events, func(e Event) bool {
		if e.DevPath == "/devices/forged" {
			t.Error("a forged message came through")
		}
		return marked("forged")(e)
	})
}

// Messages that are lost because nobody reads become a rescan.
func TestLostEvents(t *testing.T) {
	kernelOrSkip(t)
	socket, err := listenKernel()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) }); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		trigger(t, "lost")
	}
	for range 60 {
		e, err := next(socket)
		if err != nil {
			t.Fatal(err)
		}
		if e.Action == Rescan {
			return
		}
	}
	t.Error("no rescan after messages were lost")
}

// A real device comes, goes and comes back.
func TestFollowLoopDevice(t *testing.T) {
	kernelOrSkip(t)
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		testenv.Lacks(t, err)
	}
	t.Cleanup(func() { control.Close() })
	n := addLoop(t, control)
	name := "loop" + strconv.Itoa(n)
	ctx, cancel := context.WithCancel(t.Context())
	found, err := Host{}.Follow(ctx, Match{Kind: Block, Select: name})
	if err != nil {
		t.Fatal(err)
	}
	one := func(d []Device) bool { return len(d) == 1 && d[0].Nodes[0].Path == "/dev/"+name }
	awaitFound(t, found, one)
	loopControl(t, control, unix.LOOP_CTL_REMOVE, n)
	awaitFound(t, found, func(d []Device) bool { return len(d) == 0 })
	loopControl(t, control, unix.LOOP_CTL_ADD, n)
	awaitFound(t, found, one)
	loopControl(t, control, unix.LOOP_CTL_REMOVE, n)
	cancel()
	for range found {
	}
}

// addLoop makes a loop device of a number that nobody else takes.
func addLoop(t *testing.T, control *os.File) int {
	t.Helper()
	for n := 1000 + os.Getpid()%100000*8; ; n++ {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), unix.LOOP_CTL_ADD, uintptr(n))
		switch errno {
		case 0:
			t.Cleanup(func() { // no error if the test has removed it, as it should
				_, _, _ = unix.Syscall(unix.SYS_IOCTL, control.Fd(), unix.LOOP_CTL_REMOVE, uintptr(n))
			})
			return n
		case unix.EEXIST:
		default:
			testenv.Lacksf(t, "cannot make a loop device: %v", errno)
		}
	}
}

func loopControl(t *testing.T, control *os.File, request uint, n int) {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, control.Fd(), uintptr(request), uintptr(n))
		if errno == 0 {
			return
		}
		if errno != unix.EBUSY || time.Now().After(end) { // somebody looks at it
			t.Fatalf("loop device %d: %v", n, errno)
		}
	}
}

// Where the kernel does not tell, looking does; a replug under another number
// and node is followed by what identifies the device.
func TestFollowByPolling(t *testing.T) {
	f := newFixture(t)
	h := f.host()
	h.interval = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	events, err := h.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Action != Rescan {
		t.Fatalf("the first event is %s, want rescan", e.Action)
	}
	f.usb("1-1", 5, "0403", "6001", "FTDI", "", "A1")
	e := await(t, events, func(e Event) bool { return e.Action == Add })
	if e.Node != "/dev/bus/usb/001/005" || e.Subsystem != "usb_device" || e.Major != 189 || e.Minor != 4 || e.DevPath != "/devices/"+bus+"0000:00:14.0/usb1/1-1" {
		t.Errorf("event %+v", e)
	}
	found, err := h.Follow(ctx, Match{Kind: USB, Select: "0403:6001:A1"})
	if err != nil {
		t.Fatal(err)
	}
	awaitFound(t, found, func(d []Device) bool { return len(d) == 1 && d[0].Nodes[0].Minor == 4 })
	for _, name := range []string{"dev/bus/usb/001/005", "sys/dev/char/189:4", "sys/bus/usb/devices/1-1", "sys/class/usb_device/1-1"} {
		if err := os.Remove(f.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, events, func(e Event) bool { return e.Action == Remove && e.Node == "/dev/bus/usb/001/005" })
	awaitFound(t, found, func(d []Device) bool { return len(d) == 0 })
	f.usb("1-2", 9, "0403", "6001", "FTDI", "", "A1")
	await(t, events, func(e Event) bool { return e.Action == Add && e.Minor == 8 })
	d := awaitFound(t, found, func(d []Device) bool { return len(d) == 1 && d[0].Attributes[AttrPort] == "1-2" })
	if d[0].Name != "usb-0403-6001-A1" || d[0].Nodes[0].Path != "/dev/bus/usb/001/009" {
		t.Errorf("after the replug:\n%s", summary(d))
	}
	cancel()
	for range events {
	}
	for range found {
	}
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte("change@/devices/virtual/mem/null\x00ACTION=change\x00DEVPATH=/devices/virtual/mem/null\x00SUBSYSTEM=mem\x00MAJOR=1\x00MINOR=3\x00DEVNAME=null\x00"))
	f.Add([]byte("libudev\x00\xfe\xed\xca\xfe\x28\x00\x00\x00"))
	f.Add([]byte("add@/a\x00ACTION=add\x00DEVPATH=/a\x00DEVNAME=../../etc/passwd\x00MAJOR=99999999999\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseUevent(data)
		if err != nil {
			return
		}
		if e.Action == "" || e.DevPath[0] != '/' || e.Node != "" && len(e.Node) < len("/dev") || len(e.Node) > 4 && e.Node[:5] != "/dev/" {
			t.Fatalf("%q is read as %+v", data, e)
		}
	})
}
