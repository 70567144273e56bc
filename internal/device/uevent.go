package device

import (
	"errors"
	"path"
	"strconv"
	"strings"
)

// Action is what happened to a device.
type Action string

// The actions of which the kernel tells, and Rescan.
const (
	Add    Action = "add"
	Remove Action = "remove"
	Change Action = "change"
	Move   Action = "move"
	Bind   Action = "bind"
	Unbind Action = "unbind"
	// Rescan says that something may have happened of which there is no message:
	// look at everything again.
	Rescan Action = "rescan"
)

// Event is a change of the host's devices.
type Event struct {
	Action    Action
	DevPath   string // below /sys
	Subsystem string
	Node      string // the device's node, if it has one
	Major     uint32 // of the node
	Minor     uint32
	Env       map[string]string // all that the kernel says
}

// maxUevent is the most that the kernel puts in a message, with room to spare, in
// bytes.
const maxUevent = 16 << 10

var errUevent = errors.New("no message of the kernel's about a device")

// parseUevent reads a message of the kernel's: ACTION@DEVPATH and then NAME=VALUE,
// each ended by a NUL. udev's own messages, which have another header, are an
// error.
func parseUevent(data []byte) (Event, error) {
	if len(data) == 0 || len(data) > maxUevent || data[len(data)-1] != 0 {
		return Event{}, errUevent
	}
	header, rest, _ := strings.Cut(string(data), "\x00")
	action, devpath, ok := strings.Cut(header, "@")
	if !ok || action == "" || !strings.HasPrefix(devpath, "/") || strings.Contains(devpath, "/../") {
		return Event{}, errUevent
	}
	e := Event{Action: Action(action), DevPath: devpath, Env: make(map[string]string)}
	for pair := range strings.SplitSeq(strings.TrimSuffix(rest, "\x00"), "\x00") {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			e.Env[name] = value
		}
	}
	// The header is what counts: a driver can add to the rest.
	if e.Env["ACTION"] != action || e.Env["DEVPATH"] != devpath {
		return Event{}, errUevent
	}
	e.Subsystem = e.Env["SUBSYSTEM"]
	if name := e.Env["DEVNAME"]; name != "" {
		e.Node = path.Join("/dev", path.Join("/", strings.TrimPrefix(name, "/dev/")))
	}
	e.Major, e.Minor = number(e.Env["MAJOR"]), number(e.Env["MINOR"])
	return e, nil
}

// number reads a device number; 0 if it is none.
func number(s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}
