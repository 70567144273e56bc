package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fairlead/fairlead/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
)

const devicesPerSpec = 5

// fromHost is the number of the spec that leaves device numbers to the host.
const fromHost = 13

// kind is the kind of the spec with a number, and device one of its devices.
func kind(i int) string { return fmt.Sprintf("vendor%d.com/class", i) }

func device(i int) string { return fmt.Sprintf("%s=%d", kind(i/devicesPerSpec), i%devicesPerSpec) }

// largeSpec is a spec as drivers of accelerators write them: about 12 KB. marker
// is the name of one more device; "" for none.
func largeSpec(i int, marker string) *cdi.Spec {
	s := &cdi.Spec{Version: "0.6.0", Kind: kind(i)}
	for d := range devicesPerSpec {
		s.Devices = append(s.Devices, cdi.Device{Name: fmt.Sprint(d), ContainerEdits: largeEdits(i, d)})
	}
	if marker != "" {
		s.Devices = append(s.Devices, cdi.Device{Name: marker, ContainerEdits: cdi.ContainerEdits{Env: []string{"A=b"}}})
	}
	return s
}

func largeEdits(i, d int) cdi.ContainerEdits {
	e := cdi.ContainerEdits{Env: []string{"VENDOR_VISIBLE_DEVICES=void", fmt.Sprintf("VENDOR%d_DEVICE_%d=yes", i, d)}}
	for n, host := range []string{"null", "zero", "full", "random"} {
		node := &cdi.DeviceNode{Path: fmt.Sprintf("/dev/vendor%d-%d-%s", i, d, host), HostPath: "/dev/" + host, Permissions: "rw"}
		if i != fromHost {
			node.Type, node.Major, node.Minor = "c", 195, int64(4*d+n)
		}
		e.DeviceNodes = append(e.DeviceNodes, node)
	}
	for _, lib := range []string{"cuda", "ml", "opencl"} {
		p := fmt.Sprintf("/usr/lib/x86_64-linux-gnu/libvendor%d-%d-%s.so.535.104.05", i, d, lib)
		e.Mounts = append(e.Mounts, &cdi.Mount{HostPath: p, ContainerPath: p, Options: []string{"ro", "nosuid", "nodev", "bind"}})
	}
	e.Hooks = []*cdi.Hook{{
		HookName: "createContainer", Path: "/usr/bin/vendor-hook", Env: []string{"A=b"},
		Args: []string{"vendor-hook", "update-ldcache", "--folder", "/usr/lib/x86_64-linux-gnu"},
	}}
	return e
}

func specFile(i int) string { return cdi.FileName(kind(i), "") }

// fill writes n specs to a new directory and returns the size of one.
func fill(dir string, n int) (size int64, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	for i := range n {
		text, err := cdi.Marshal(largeSpec(i, ""))
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, specFile(i)), text, 0o644); err != nil {
			return 0, err
		}
		size = int64(len(text))
	}
	return size, nil
}

// container is the configuration of an ordinary container.
func container() *oci.Spec {
	return &oci.Spec{
		Version: "1.2.0",
		Process: &oci.Process{Args: []string{"sh"}, Cwd: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "TERM=xterm", "HOSTNAME=c"}},
		Root:    &oci.Root{Path: "rootfs"},
		Mounts: []oci.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
		},
		Linux: &oci.Linux{Namespaces: []oci.LinuxNamespace{{Type: "pid"}, {Type: "mount"}}},
	}
}

func writeConfig(path string) error {
	text, err := json.Marshal(container())
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
