package device

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelGroup is the multicast group in which the kernel speaks; udev has 2.
const kernelGroup = 1

// receiveBuffer is the room for messages that nobody has read yet, in bytes: a
// dock with all that hangs on it makes some hundreds.
const receiveBuffer = 8 << 20

// defaultPoll is how often devices are looked at where the kernel does not tell
// of them.
const defaultPoll = 2 * time.Second

// Watch tells of devices that come, go and change, until ctx ends: then the
// channel is closed. The first event is Rescan, sent when nothing can be missed
// any more, so that whoever lists devices at each Rescan and looks at every
// event knows all.
//
// It listens to the kernel's messages. Where that is not allowed or of no use (in
// a user namespace, or with a Root that is not this host's) it compares what is
// there every two seconds. Messages that were lost because nobody read the
// channel become one Rescan.
func (h Host) Watch(ctx context.Context) (<-chan Event, error) {
	t, err := openTree(h.Root)
	if err != nil {
		return nil, fmt.Errorf("watch devices: %w", err)
	}
	events := make(chan Event)
	socket, err := listenKernel()
	if err != nil || t.path != "" || !initialNamespace() {
		if err == nil {
			socket.Close()
		}
		go func() {
			defer close(events)
			defer t.close()
			poll(ctx, t, events, cmp.Or(h.interval, defaultPoll))
		}()
		return events, nil
	}
	t.close()
	go func() {
		defer close(events)
		receive(ctx, socket, events)
	}()
	return events, nil
}

// initialNamespace reports whether the process is in a user namespace to which
// the kernel tells of devices: it does so only in the first.
func initialNamespace() bool {
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(ids)), " ") == "0 0 4294967295"
}

// listenKernel opens a socket on which the kernel tells of devices.
func listenKernel() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open socket for the kernel's messages: %w", err)
	}
	// Whoever may not have that much gets as much as he may.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to the kernel's messages: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevent"), nil
}

// receive sends the kernel's messages on until ctx ends.
func receive(ctx context.Context, socket *os.File, events chan<- Event) {
	defer socket.Close()
	stop := context.AfterFunc(ctx, func() { _ = socket.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	e := Event{Action: Rescan}
	for {
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
		var err error
		if e, err = next(socket); err != nil {
			return // only at the end: the socket is sound otherwise
		}
	}
}

// next is the next message of the kernel's, or Rescan for those that were lost.
func next(socket *os.File) (Event, error) {
	conn, err := socket.SyscallConn()
	if err != nil {
		return Event{}, err
	}
	buf := make([]byte, maxUevent)
	for {
		var n, flags int
		var from unix.Sockaddr
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			n, _, flags, from, failed = unix.Recvmsg(int(fd), buf, nil, 0)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return Event{}, err
		case errors.Is(failed, unix.ENOBUFS):
			return Event{Action: Rescan}, nil
		case errors.Is(failed, unix.EINTR):
			continue
		case failed != nil:
			return Event{}, failed
		}
		if e, ok := message(buf[:n], flags, from); ok {
			return e, nil
		}
	}
}

// message is what a message of the kernel's says; one that was cut is one that
// was lost.
func message(data []byte, flags int, from unix.Sockaddr) (Event, bool) {
	if !fromKernel(from) {
		return Event{}, false
	}
	if flags&unix.MSG_TRUNC != 0 {
		return Event{Action: Rescan}, true
	}
	e, err := parseUevent(data)
	return e, err == nil
}

// fromKernel keeps out what other processes send: port 0 is the kernel's alone.
func fromKernel(from unix.Sockaddr) bool {
	nl, ok := from.(*unix.SockaddrNetlink)
	return ok && nl.Pid == 0 && nl.Groups == kernelGroup
}
