package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// ErrInvalid is what is wrong with a match that cannot be read.
var ErrInvalid = errors.New("invalid")

// Kind is a kind of device, as a person asks for it.
type Kind string

// The kinds. Char and Block are every device of that type; each of the others is
// what one piece of hardware (or one service of the kernel) offers, which may be
// several nodes.
const (
	Char       Kind = "char"
	Block      Kind = "block"
	DRI        Kind = "dri"        // a graphics card: card and render node
	KFD        Kind = "kfd"        // an AMD GPU for computing: /dev/kfd and its render node
	KVM        Kind = "kvm"        // /dev/kvm
	Fuse       Kind = "fuse"       // /dev/fuse
	Tun        Kind = "tun"        // /dev/net/tun
	Serial     Kind = "serial"     // a serial port
	Video      Kind = "video"      // a camera or capture card's node
	Sound      Kind = "sound"      // a sound card: control, PCM, MIDI
	TPM        Kind = "tpm"        // a TPM, with and without resource manager
	USB        Kind = "usb"        // a USB device as libusb opens it
	VFIO       Kind = "vfio"       // an IOMMU group
	InfiniBand Kind = "infiniband" // an RDMA adapter: verbs, management, connections
	NVIDIA     Kind = "nvidia"     // an NVIDIA GPU, a slice of one, or what controls them
)

// Kinds lists every kind, in the order in which List gives the devices.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(finders))
	for _, f := range finders {
		kinds = append(kinds, f.kind)
	}
	return kinds
}

// Device is one thing of the host's that a container can be given.
type Device struct {
	Kind Kind `json:"kind"`
	// Name is unique among the devices of its kind and fit for a CDI device
	// (CDI-050): it comes from what identifies the hardware (serial number,
	// vendor and product, position on the bus), and from the kernel's order of
	// finding it only where there is nothing better.
	Name string `json:"name"`
	// Nodes are the device's nodes, the most telling one first.
	Nodes []Node `json:"nodes"`
	// Attributes tell more about it; see the Attr constants. An absent one is
	// not known.
	Attributes map[string]string `json:"attributes,omitempty"`
	// Libraries, Binaries and Files are what the driver wants in a container
	// besides the nodes; of NVIDIA devices only.
	Libraries []Library `json:"libraries,omitempty"`
	Binaries  []File    `json:"binaries,omitempty"`
	Files     []File    `json:"files,omitempty"`

	place string // what tells twins apart: a position, or the kernel's name
	sys   string // its directory in sysfs; unique, where known
}

// The names of attributes.
const (
	AttrVendor  = "vendor"  // four hexadecimal digits for PCI and USB, a name elsewhere
	AttrProduct = "product" // four hexadecimal digits for PCI and USB
	AttrSerial  = "serial"
	AttrDriver  = "driver" // the kernel's driver
	AttrPCI     = "pci"    // address, domain:bus:device.function
	AttrPort    = "port"   // USB port, bus-port.port
	AttrModel   = "model"  // for a person to read
	AttrUUID    = "uuid"
	AttrVersion = "version" // of the driver
	AttrGroup   = "group"   // IOMMU group
	AttrKernel  = "kernel"  // the kernel's own name, which may be another one tomorrow
)

// Node is a device node.
type Node struct {
	Path     string `json:"path"`     // in the container
	HostPath string `json:"hostPath"` // on the host; never a symbolic link
	Type     string `json:"type"`     // "b" or "c"
	Major    uint32 `json:"major"`
	Minor    uint32 `json:"minor"`
	Mode     uint32 `json:"mode"` // permission bits on the host
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
	// Role says what the node is to its device where it has several: card,
	// render, control, pcm …
	Role string `json:"role,omitempty"`

	shared bool // a node that several devices of the kind need, such as /dev/kfd
}

// forAll marks a node as one that several devices share.
func forAll(n Node, ok bool) (Node, bool) {
	n.shared = true
	return n, ok
}

// Library is a shared library of a driver.
type Library struct {
	File
	Links []Link `json:"links,omitempty"` // such as libcuda.so.1, in its directory
}

// File is a file of the host's and where the container expects it.
type File struct {
	Path     string `json:"path"`
	HostPath string `json:"hostPath"`
}

// Link is a symbolic link in the container.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"` // as it is written in the link
}

// Host is where devices are looked for. The zero value is this host.
type Host struct {
	// Root is the directory that holds the host's dev, sys and proc; empty
	// means /. Paths of devices are always those that the host itself sees.
	Root string
	// DriverRoot is where NVIDIA's driver is installed, below Root; empty means
	// Root itself, or /run/nvidia/driver if the driver is there.
	DriverRoot string
	// Hook is the program that the edits name for links and the library cache,
	// an absolute path on the host; empty means /usr/bin/fairlead-hook.
	Hook string

	interval time.Duration // of polling; 0 is defaultPoll
	unasked  time.Duration // between looks without an event; 0 is defaultUnasked
}

// List finds every device, ordered by kind and name. A node that is part of a
// device of another kind is not listed again as char or block. What cannot be
// read is left out: the error is that of Root, DriverRoot or ctx.
func (h Host) List(ctx context.Context) ([]Device, error) {
	s, err := h.scan(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return s.list(ctx)
}

// list finds every device, each node once.
func (s *scan) list(ctx context.Context) ([]Device, error) {
	all, err := s.kinds(ctx, Kinds()...)
	if err != nil {
		return nil, err
	}
	owned := make(map[string]bool)
	for _, d := range all {
		if d.Kind != Char && d.Kind != Block {
			for _, n := range d.Nodes {
				owned[n.HostPath] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(d Device) bool {
		return (d.Kind == Char || d.Kind == Block) && owned[d.Nodes[0].HostPath]
	}), nil
}

// Find finds the devices that m asks for, ordered by kind and name. None is no
// error.
//
// A match of a path or a glob finds nodes, not hardware: each node of that path
// becomes a device of its own with just that node, named for the hardware it
// belongs to and its role there, so that nobody is given more than he asked for.
func (h Host) Find(ctx context.Context, m Match) ([]Device, error) {
	found, err := h.FindEach(ctx, m)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// FindEach finds in one look at the host what each of the matches asks for, in
// their order.
func (h Host) FindEach(ctx context.Context, matches ...Match) ([][]Device, error) {
	for _, m := range matches {
		if err := m.check(); err != nil {
			return nil, err
		}
	}
	s, err := h.scan(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	each := make([][]Device, len(matches))
	for i, m := range matches {
		if each[i], err = s.find(ctx, m); err != nil {
			return nil, err
		}
	}
	return each, nil
}

// find finds what m asks for.
func (s *scan) find(ctx context.Context, m Match) (found []Device, err error) {
	switch {
	case m.Path != "":
		return s.paths(ctx, m)
	case m.Kind != "":
		found, err = s.kinds(ctx, m.Kind)
	default:
		found, err = s.list(ctx)
	}
	return slices.DeleteFunc(found, func(d Device) bool { return !m.fits(d) }), err
}

// scan is one look at a host.
type scan struct {
	*tree
	host  Host
	links map[string][]string // device node to the links below /dev that lead to it
	known map[Kind][]Device   // the kinds that were looked for already
}

func (h Host) scan(ctx context.Context) (*scan, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := openTree(h.Root)
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	if h.DriverRoot != "" && !t.exists(h.DriverRoot) {
		t.close()
		return nil, fmt.Errorf("look for devices: driver root %s: %w", h.DriverRoot, fs.ErrNotExist)
	}
	s := &scan{tree: t, host: h, known: make(map[Kind][]Device)}
	s.links = s.findLinks()
	return s, nil
}

// finders find the devices of each kind. A finder gives devices in any order,
// and may give some without nodes: those are not there for anybody.
var finders = []struct {
	kind Kind
	find func(*scan) []Device
}{
	{KVM, service("misc/kvm")},
	{Fuse, service("misc/fuse")},
	{Tun, service("misc/tun")},
	{DRI, (*scan).cards},
	{KFD, (*scan).computers},
	{NVIDIA, (*scan).nvidia},
	{Serial, (*scan).serialPorts},
	{Video, (*scan).cameras},
	{Sound, (*scan).soundCards},
	{TPM, (*scan).tpms},
	{USB, (*scan).usbDevices},
	{VFIO, (*scan).ioGroups},
	{InfiniBand, (*scan).adapters},
	{Block, func(s *scan) []Device { return s.every("block") }},
	{Char, func(s *scan) []Device { return s.every("char") }},
}

// kinds finds the devices of some kinds, in a list of the caller's own.
func (s *scan) kinds(ctx context.Context, kinds ...Kind) ([]Device, error) {
	var all []Device
	for _, f := range finders {
		if !slices.Contains(kinds, f.kind) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, looked := s.known[f.kind]
		if !looked {
			found = slices.DeleteFunc(f.find(s), func(d Device) bool { return len(d.Nodes) == 0 })
			for i := range found {
				found[i].Kind = f.kind
			}
			settle(found)
			slices.SortFunc(found, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
			s.known[f.kind] = found
		}
		all = append(all, found...)
	}
	return all, nil
}
