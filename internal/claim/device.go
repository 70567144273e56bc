package claim

import (
	"path"
	"strings"
)

// KindDevice is a device of this host, handed over through CDI.
const KindDevice Kind = "device"

// maxMatch bounds a match and a path in a container, in bytes.
const maxMatch = 512

// DeviceSpec is what a person asks of a device.
type DeviceSpec struct {
	// Match says which device is meant, as internal/device.ParseMatch reads it.
	// It is kept, rather than what it found, so that a device that is put in
	// again is found under whatever number it then has.
	Match string `json:"match"`
	// All claims every device that fits; else there must be exactly one.
	All bool `json:"all,omitempty"`
	// Path is where a container finds the node of the device; empty is where the
	// host has it.
	Path string `json:"path,omitempty"`
}

// Device is what has been done for a claim of KindDevice.
type Device struct {
	DeviceSpec
	// Chosen is the device that was found first, as KIND:NAME. Where several fit
	// later on, it stays the one. Empty with All, and until one was found.
	Chosen string `json:"chosen,omitempty"`
	// Name is the CDI name while the device is there; empty while it is not.
	Name string `json:"device,omitempty"`
	// Found are the devices that Name stands for, as KIND:NAME, Nodes their nodes.
	Found []string     `json:"found,omitempty"`
	Nodes []DeviceNode `json:"nodes,omitempty"`
	// Former are nodes that are gone while containers may still have them: no
	// runtime takes a node from a container that runs, or gives it one.
	Former []DeviceNode `json:"former,omitempty"`
	// Stale are the containers that have a former node now. Never stored; told
	// of one claim only.
	Stale []DeviceUser `json:"stale,omitempty"`
}

// DeviceNode is one node of a claimed device.
type DeviceNode struct {
	Path     string `json:"path"`     // in a container
	HostPath string `json:"hostPath"` // on the host
	Type     string `json:"type"`     // "b" or "c"
	Major    uint32 `json:"major"`
	Minor    uint32 `json:"minor"`
}

// DeviceUser is a process in a container that has a node of a device.
type DeviceUser struct {
	PID  int        `json:"pid"`
	Comm string     `json:"comm"` // its name; not to be trusted
	Node DeviceNode `json:"node"`
}

// Check validates what a person asked of a device, the grammar of its match
// aside: the room that looks for devices knows that.
func (s *DeviceSpec) Check() error {
	if s.Match == "" {
		return Errorf(CodeInvalid, "a claim for a device needs a match").WithHint("for example /dev/fuse, or usb:0403:6001; see: fairlead claim device --help")
	}
	for what, v := range map[string]string{"the match": s.Match, "the path": s.Path} {
		if len(v) > maxMatch {
			return Errorf(CodeInvalid, "%s is %d bytes long; at most %d are allowed", what, len(v), maxMatch)
		}
		if err := CheckText(what, v); err != nil {
			return err
		}
	}
	switch {
	case s.Path == "":
		return nil
	case s.All:
		return Errorf(CodeInvalid, "a path is for one device; all that fit cannot have the same")
	case path.Clean(s.Path) != s.Path || !strings.HasPrefix(s.Path, "/dev/"):
		return Errorf(CodeInvalid, "%q is no path below /dev without . and ..", s.Path).WithHint("for example /dev/modem")
	}
	return nil
}
