package device

import (
	"path"
	"reflect"
	"slices"

	"github.com/fairlead/fairlead/cdi"
)

// defaultHook is where a package installs the hook.
const defaultHook = "/usr/bin/fairlead-hook"

// Edits are what brings d into a container: its nodes, and for a GPU the
// driver's files, with hooks that make their links and enter them in the library
// cache (CDI-101, CDI-112).
//
// Numbers, owners and modes of nodes are left out: whoever injects the device
// reads the numbers from the host at that time, when they are true. A container
// may read and write a node, not make it again.
func (h Host) Edits(d Device) *cdi.ContainerEdits {
	e := &cdi.ContainerEdits{}
	for _, n := range d.Nodes {
		node := &cdi.DeviceNode{Path: n.Path, Permissions: "rw"}
		if n.HostPath != n.Path {
			node.HostPath = n.HostPath
		}
		e.DeviceNodes = append(e.DeviceNodes, node)
	}
	for _, list := range [][]File{d.Binaries, d.Files} {
		for _, f := range list {
			e.Mounts = append(e.Mounts, readOnly(f))
		}
	}
	var links, folders []string
	for _, l := range d.Libraries {
		e.Mounts = append(e.Mounts, readOnly(l.File))
		for _, link := range l.Links {
			links = append(links, "--link="+link.Target+"::"+link.Path)
		}
		if folder := "--folder=" + path.Dir(l.Path); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	e.Hooks = append(h.hook("create-symlinks", links), h.hook("update-ldcache", folders)...)
	if d.Kind == NVIDIA {
		// NVIDIA's own runtime, where it is installed too, is not to do it again.
		e.Env = []string{"NVIDIA_VISIBLE_DEVICES=void"}
	}
	return e
}

// readOnly mounts a file of the driver's. Options are always given: a mount
// without any fails in podman 4.
func readOnly(f File) *cdi.Mount {
	return &cdi.Mount{HostPath: f.HostPath, ContainerPath: f.Path, Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}}
}

// hook runs a command of the hook's, if there is anything for it to do.
func (h Host) hook(command string, args []string) []*cdi.Hook {
	if len(args) == 0 {
		return nil
	}
	program := h.Hook
	if program == "" {
		program = defaultHook
	}
	return []*cdi.Hook{{
		HookName: "createContainer", Path: program,
		Args: append([]string{path.Base(program), command}, args...),
		// A hook without an environment gets the container's: LD_PRELOAD and all
		// (CVE-2025-23266).
		Env: []string{"LC_ALL=C"},
	}}
}

// Spec makes one CDI spec of devices of one CDI kind, such as
// fairlead.dev/gpu. What every one of them brings (control nodes, libraries) is
// stated once for all (CDI-058). Devices have unique names (CDI-052): those of
// one Kind do.
func (h Host) Spec(kind string, devices []Device) *cdi.Spec {
	s := &cdi.Spec{Kind: kind}
	for _, d := range devices {
		s.Devices = append(s.Devices, cdi.Device{Name: d.Name, ContainerEdits: *h.Edits(d)})
	}
	if len(s.Devices) > 1 {
		edits := make([]*cdi.ContainerEdits, len(s.Devices))
		for i := range s.Devices {
			edits[i] = &s.Devices[i].ContainerEdits
		}
		common := &s.ContainerEdits
		factor(&common.Env, edits, func(e *cdi.ContainerEdits) *[]string { return &e.Env })
		factor(&common.DeviceNodes, edits, func(e *cdi.ContainerEdits) *[]*cdi.DeviceNode { return &e.DeviceNodes })
		factor(&common.Mounts, edits, func(e *cdi.ContainerEdits) *[]*cdi.Mount { return &e.Mounts })
		factor(&common.Hooks, edits, func(e *cdi.ContainerEdits) *[]*cdi.Hook { return &e.Hooks })
	}
	s.Version = cdi.MinimumVersion(s)
	return s
}

// SpecOfOne makes a CDI spec of one device that stands for all of devices. What
// several of them need is in it once.
func (h Host) SpecOfOne(kind, name string, devices []Device) *cdi.Spec {
	var all cdi.ContainerEdits
	for _, d := range devices {
		e := h.Edits(d)
		all.Env = union(all.Env, e.Env)
		all.DeviceNodes = union(all.DeviceNodes, e.DeviceNodes)
		all.Mounts = union(all.Mounts, e.Mounts)
		all.Hooks = union(all.Hooks, e.Hooks)
	}
	s := &cdi.Spec{Kind: kind, Devices: []cdi.Device{{Name: name, ContainerEdits: all}}}
	s.Version = cdi.MinimumVersion(s)
	return s
}

// union adds what a list does not have yet.
func union[T any](list, more []T) []T {
	for _, v := range more {
		if !slices.ContainsFunc(list, func(have T) bool { return reflect.DeepEqual(have, v) }) {
			list = append(list, v)
		}
	}
	return list
}

// factor moves to common what is in the list of every one of edits.
func factor[T any](common *[]T, edits []*cdi.ContainerEdits, list func(*cdi.ContainerEdits) *[]T) {
	has := func(in []T, v T) bool {
		return slices.ContainsFunc(in, func(o T) bool { return reflect.DeepEqual(o, v) })
	}
	for _, v := range *list(edits[0]) {
		if !slices.ContainsFunc(edits, func(e *cdi.ContainerEdits) bool { return !has(*list(e), v) }) {
			*common = append(*common, v)
		}
	}
	for _, e := range edits {
		l := list(e)
		*l = slices.DeleteFunc(*l, func(v T) bool { return has(*common, v) })
	}
}
