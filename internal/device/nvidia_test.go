package device

import (
	"context"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cdi"
)

const uuid = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"

// nvidiaHost makes a host with two GPUs, of which one is cut into slices, and a
// driver below root ("" or a directory that ends in a slash).
func nvidiaHost(t testing.TB, root string) *fixture {
	f := newFixture(t)
	for i, address := range []string{"0000:41:00.0", "0000:01:00.0"} { // the kernel found them in that order
		f.pci(bus+address, "10de", "20b5", "nvidia")
		f.node("dev/nvidia"+string(rune('0'+i)), "c", 195, uint32(i))
		f.device(bus+address+"/drm/card"+string(rune('0'+i)), "drm", "dri/card"+string(rune('0'+i)), "226:"+string(rune('0'+i)))
		f.behind(bus+address+"/drm/card"+string(rune('0'+i)), bus+address)
	}
	f.file("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA A100-PCIE-40GB\nIRQ:   \t\t 66\nGPU UUID: \t "+uuid+
		"\nBus Type: \t PCIe\nBus Location: \t 0000:41:00.0\nDevice Minor: \t 0\nGPU Excluded:\t No\n")
	f.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A100-PCIE-40GB\nGPU UUID: \t GPU-????????-????-????-????-????????????\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 1\n")
	for i, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		f.node("dev/"+name, "c", 195, uint32(250+i))
	}
	capabilities := map[string]string{"mig/config": "1", "mig/monitor": "2", "gpu0/mig/gi1/access": "12", "gpu0/mig/gi1/ci0/access": "13"}
	for name, minor := range capabilities {
		f.file("proc/driver/nvidia/capabilities/"+name, "DeviceFileMinor: "+minor+"\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	}
	for _, minor := range []uint32{1, 2, 12, 13} {
		f.node("dev/nvidia-caps/nvidia-cap"+map[uint32]string{1: "1", 2: "2", 12: "12", 13: "13"}[minor], "c", 235, minor)
	}
	f.node("dev/nvidia-caps-imex-channels/channel0", "c", 236, 0)
	f.attrs("sys/module/nvidia", "version", "550.54.15")
	f.driver(root)
	return f
}

// driver installs what looks like NVIDIA's driver, and libraries that look like
// it but are not.
func (f *fixture) driver(root string) {
	const lib = "usr/lib/x86_64-linux-gnu/"
	f.library(root, lib+"libcuda.so.550.54.15", "libcuda.so.1", "libcuda.so")
	f.library(root, lib+"libnvidia-ml.so.550.54.15", "libnvidia-ml.so.1")
	f.library(root, lib+"libnvidia-allocator.so.550.54.15", "libnvidia-allocator.so.1")
	f.link(root+lib+"gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1")
	f.library(root, lib+"vdpau/libvdpau_nvidia.so.550.54.15", "libvdpau_nvidia.so.1")
	f.library(root, lib+"libnvidia-container.so.1.14.3", "libnvidia-container.so.1")
	f.library(root, lib+"libc.so.6")
	f.cache(root,
		"libcuda.so.1", "/"+lib+"libcuda.so.1", "libcuda.so", "/"+lib+"libcuda.so", "libnvidia-ml.so.1", "/"+lib+"libnvidia-ml.so.1",
		"libnvidia-allocator.so.1", "/"+lib+"libnvidia-allocator.so.1", "libnvidia-container.so.1", "/"+lib+"libnvidia-container.so.1",
		"libnvidia-gone.so.1", "/"+lib+"libnvidia-gone.so.1", "libc.so.6", "/"+lib+"libc.so.6")
	f.file(root+"usr/bin/nvidia-smi", "not really a program")
	f.file(root+"lib/firmware/nvidia/550.54.15/gsp_ga10x.bin", "firmware")
	f.file(root+"lib/firmware/nvidia/535.1.1/gsp_ga10x.bin", "of another version")
}

func TestNVIDIA(t *testing.T) {
	f := nvidiaHost(t, "")
	const control = " /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia-modeset"
	same(t, summary(f.find("nvidia")), `
		nvidia control: /dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidia-modeset
		nvidia imex-channel0: /dev/nvidia-caps-imex-channels/channel0
		nvidia mig-config: /dev/nvidia-caps/nvidia-cap1
		nvidia mig-monitor: /dev/nvidia-caps/nvidia-cap2
		nvidia pci-0000_01_00.0: /dev/nvidia1`+control+` /dev/dri/card1 /dev/dri/by-path/pci-0000:01:00.0-card</dev/dri/card1
		nvidia pci-0000_41_00.0: /dev/nvidia0`+control+` /dev/dri/card0 /dev/dri/by-path/pci-0000:41:00.0-card</dev/dri/card0
		nvidia pci-0000_41_00.0-gi1-ci0: /dev/nvidia0 /dev/nvidia-caps/nvidia-cap12 /dev/nvidia-caps/nvidia-cap13`+control+`
	`)
	d := f.find("nvidia:" + uuid)[0]
	if a := d.Attributes; a[AttrModel] != "NVIDIA A100-PCIE-40GB" || a[AttrVersion] != "550.54.15" || a[AttrPCI] != "0000:41:00.0" || a[AttrDriver] != "nvidia" {
		t.Errorf("attributes %v", a)
	}
	same(t, summary(f.find("/dev/nvidiactl")), "nvidia nvidiactl: /dev/nvidiactl\n")
	if d := f.find("/dev/nvidia0"); len(d) != 1 || d[0].Name != "pci-0000_41_00.0-gpu" || d[0].Libraries != nil {
		t.Errorf("by path: %+v", d)
	}
}

const wantMounts = `
/usr/bin/nvidia-smi
/lib/firmware/nvidia/550.54.15/gsp_ga10x.bin
/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
/usr/lib/x86_64-linux-gnu/libnvidia-allocator.so.550.54.15
/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.54.15
/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.550.54.15
`

const wantLinks = `
libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so
libcuda.so.550.54.15::/usr/lib/x86_64-linux-gnu/libcuda.so.1
../libnvidia-allocator.so.1::/usr/lib/x86_64-linux-gnu/gbm/nvidia-drm_gbm.so
libnvidia-allocator.so.550.54.15::/usr/lib/x86_64-linux-gnu/libnvidia-allocator.so.1
libnvidia-ml.so.1::/usr/lib/x86_64-linux-gnu/libnvidia-ml.so
libnvidia-ml.so.550.54.15::/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
libvdpau_nvidia.so.550.54.15::/usr/lib/x86_64-linux-gnu/vdpau/libvdpau_nvidia.so.1
`

// The driver's files come into the container, its libraries found through the
// library cache of where it is installed, and are made findable by two hooks in
// the form that the specification gives them.
//
// Req: CDI-101, CDI-106, CDI-107, CDI-112, CDI-119
func TestNVIDIADriver(t *testing.T) {
	for name, root := range map[string]string{"installed": "", "in a container": "run/nvidia/driver/"} {
		t.Run(name, func(t *testing.T) {
			f := nvidiaHost(t, root)
			e := f.host().Edits(f.find("nvidia:" + uuid)[0])
			prefix := strings.TrimSuffix("/"+root, "/")
			var mounts strings.Builder
			for _, m := range e.Mounts {
				inside, ok := strings.CutPrefix(m.HostPath, prefix)
				if !ok || inside != m.ContainerPath || len(m.Options) == 0 {
					t.Errorf("mount %+v", m)
				}
				mounts.WriteString(m.ContainerPath + "\n")
			}
			same(t, mounts.String(), wantMounts)
			checkHooks(t, e.Hooks)
		})
	}
}

func checkHooks(t *testing.T, hooks []*cdi.Hook) {
	t.Helper()
	if len(hooks) != 2 {
		t.Fatalf("%d hooks, want 2", len(hooks))
	}
	for _, h := range hooks {
		if h.HookName != "createContainer" || h.Path != "/usr/bin/fairlead-hook" || h.Args[0] != "fairlead-hook" || len(h.Env) == 0 {
			t.Errorf("hook %+v", h)
		}
	}
	if hooks[0].Args[1] != "create-symlinks" || hooks[1].Args[1] != "update-ldcache" {
		t.Fatalf("hooks %v, %v", hooks[0].Args, hooks[1].Args)
	}
	same(t, strings.ReplaceAll(strings.Join(hooks[0].Args[2:], "\n"), "--link=", "")+"\n", wantLinks)
	same(t, strings.Join(hooks[1].Args[2:], "\n"), "--folder=/usr/lib/x86_64-linux-gnu\n--folder=/usr/lib/x86_64-linux-gnu/vdpau")
}

// Without a cache the usual directories are looked through; without the kernel
// module's version the CUDA library's is taken; without /proc the nodes tell.
func TestNVIDIABare(t *testing.T) {
	f := newFixture(t)
	f.node("dev/nvidia3", "c", 195, 3)
	f.node("dev/nvidiactl", "c", 195, 255)
	f.pci(bus+"0000:41:00.0", "10de", "2330", "nvidia")
	f.library("", "usr/lib64/libcuda.so.570.1.2", "libcuda.so.1")
	d := f.find("nvidia,model=*")
	if len(d) != 0 {
		t.Errorf("model is not known, but %v has one", d)
	}
	d = f.find("nvidia")
	same(t, summary(d), "nvidia control: /dev/nvidiactl\nnvidia pci-0000_41_00.0: /dev/nvidia3 /dev/nvidiactl\n")
	if len(d[1].Libraries) != 1 || d[1].Libraries[0].Path != "/usr/lib64/libcuda.so.570.1.2" || d[1].Attributes[AttrVersion] != "570.1.2" {
		t.Errorf("libraries %+v, attributes %v", d[1].Libraries, d[1].Attributes)
	}
}

// What all devices of a spec bring is stated once, and the spec is one that our
// own reader takes.
//
// Req: CDI-052
func TestSpec(t *testing.T) {
	f := nvidiaHost(t, "")
	h := f.host()
	gpus := f.find("nvidia,model=*A100*")
	s := h.Spec("fairlead.dev/gpu", gpus)
	if err := cdi.Validate(s); err != nil {
		t.Fatal(err)
	}
	if len(s.ContainerEdits.Hooks) != 2 || len(s.ContainerEdits.DeviceNodes) != 4 || len(s.ContainerEdits.Mounts) != 6 || len(s.ContainerEdits.Env) != 1 {
		t.Errorf("common edits: %d hooks, %d nodes, %d mounts", len(s.ContainerEdits.Hooks), len(s.ContainerEdits.DeviceNodes), len(s.ContainerEdits.Mounts))
	}
	for _, d := range s.Devices {
		e := d.ContainerEdits
		if len(e.Hooks)+len(e.Mounts)+len(e.Env) != 0 || len(e.DeviceNodes) == 0 {
			t.Errorf("%s repeats what is common: %+v", d.Name, e)
		}
		for _, n := range append(e.DeviceNodes, s.ContainerEdits.DeviceNodes...) {
			if n.Permissions != "rw" || n.Type != "" || n.Major != 0 {
				t.Errorf("%s: node %+v", d.Name, n)
			}
		}
	}
	all, err := h.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if err := cdi.Validate(h.Spec("fairlead.dev/"+string(d.Kind), []Device{d})); err != nil {
			t.Errorf("%s %s: %v", d.Kind, d.Name, err)
		}
	}
}
