package device

import (
	"path"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/internal/ldcache"
)

// nvidiaDriverRoot is where NVIDIA's driver container installs the driver.
const nvidiaDriverRoot = "/run/nvidia/driver"

// maxCache bounds the library cache that is read, in bytes.
const maxCache = 32 << 20

// driver is NVIDIA's driver as it is installed.
type driver struct {
	*scan
	root    *tree  // where it is installed
	prefix  string // of its paths on the host; "" if that is the host's own root
	version string // "" if it is not known
}

// driver finds where the driver is installed, and its version.
func (s *scan) driver() (driver, error) {
	prefix := path.Clean("/" + s.host.DriverRoot)
	if s.host.DriverRoot == "" && (s.exists(nvidiaDriverRoot+"/usr/bin/nvidia-smi") || s.exists(nvidiaDriverRoot+"/bin/nvidia-smi")) {
		prefix = nvidiaDriverRoot
	}
	root, err := s.below(prefix)
	if err != nil {
		return driver{}, err
	}
	d := driver{scan: s, root: root, prefix: strings.TrimSuffix(prefix, "/")}
	version := clean(s.read("/sys/module/nvidia/version"))
	if isVersion(version) {
		d.version = version
	}
	return d, nil
}

func isVersion(s string) bool {
	return len(s) > 2 && len(s) < 32 && strings.Trim(s, "0123456789.") == "" && strings.Contains(s, ".")
}

// nodes are those of the names that are there: in /dev, or in the dev of where
// the driver is installed.
func (d driver) nodes(role string, names ...string) []Node {
	var nodes []Node
	for _, name := range names {
		n, ok := d.nodeAt(path.Join("/dev", name))
		if !ok && d.prefix != "" {
			n, ok = d.nodeAt(path.Join(d.prefix, "dev", name))
		}
		if !ok {
			continue
		}
		n.Path = path.Join("/dev", name)
		if n.Role = role; role == "control" {
			n.Role, n.shared = name, true
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// install notes what programs in a container need of the driver, the same for
// every device.
func (d driver) install(devices []Device) {
	libraries := d.libraries()
	binaries := d.present(d.binaries())
	files := d.present(d.files())
	for i := range devices {
		devices[i].Libraries, devices[i].Binaries, devices[i].Files = libraries, binaries, files
		attributes(devices[i].Attributes).set(AttrVersion, d.version)
	}
}

// file is a file of the driver's, which a container finds where the driver has it.
func (d driver) file(name string) File { return File{Path: name, HostPath: d.prefix + name} }

// present are those of the names that are regular files, each once, by where
// they really are.
func (d driver) present(names []string) []File {
	var files []File
	seen := make(map[string]bool)
	for _, name := range names {
		real := d.root.resolve(name)
		if real == "" || seen[real] || !d.root.regular(real) {
			continue
		}
		seen[real] = true
		files = append(files, File{Path: name, HostPath: d.prefix + real})
	}
	return files
}

func (d driver) binaries() []string {
	var names []string
	for _, name := range []string{
		"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
		"nvidia-imex", "nvidia-imex-ctl",
	} {
		for _, dir := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
			if d.root.regular(path.Join(dir, name)) {
				names = append(names, path.Join(dir, name))
				break
			}
		}
	}
	return names
}

// files are the firmware of the driver's version and what tells loaders of its
// libraries (EGL, Vulkan, OpenCL, OptiX).
func (d driver) files() []string {
	names := []string{
		"/etc/OpenCL/vendors/nvidia.icd",
		"/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
		"/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json",
		"/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
		"/etc/vulkan/icd.d/nvidia_icd.json", "/usr/share/vulkan/icd.d/nvidia_icd.json",
		"/etc/vulkan/implicit_layer.d/nvidia_layers.json", "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
		"/usr/share/nvidia/nvoptix.bin",
	}
	if d.version != "" {
		for _, dir := range []string{"/lib/firmware/nvidia", "/usr/lib/firmware/nvidia"} {
			names = append(names, d.root.glob(path.Join(dir, d.version, "gsp*.bin"))...)
		}
	}
	return names
}

// libraryDirs are searched where there is no library cache.
var libraryDirs = []string{
	"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib",
	"/usr/lib/i386-linux-gnu", "/usr/lib32",
}

// libraries are the driver's libraries, ordered by path.
func (d *driver) libraries() []Library {
	names := d.cached()
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(path.Base(n), "libcuda.so") }) {
		names = nil
		for _, dir := range libraryDirs {
			names = append(names, d.listed(dir, "lib")...)
		}
	}
	if d.version == "" {
		d.version = d.versionOf(names)
	}
	for _, dir := range directories(names) { // opened by path, and so in no cache
		names = append(names, d.listed(path.Join(dir, "vdpau"), "libvdpau_nvidia")...)
	}
	at := make(map[string]int)
	var all []Library
	for _, name := range names {
		real := d.root.resolve(name)
		if _, known := at[real]; known || real == "" || !d.ours(path.Base(real)) || !d.root.regular(real) {
			continue
		}
		at[real] = len(all)
		all = append(all, Library{File: d.file(real), Links: d.linksTo(real)})
	}
	slices.SortFunc(all, func(a, b Library) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// cached are the libraries that the cache of where the driver is installed
// knows.
func (d driver) cached() []string {
	entries, err := ldcache.Parse([]byte(d.root.readUpTo("/etc/ld.so.cache", maxCache)))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if path.IsAbs(e.Path) && ofNVIDIA(path.Base(e.Path)) {
			names = append(names, path.Clean(e.Path))
		}
	}
	return names
}

// listed are the files of a directory whose names begin so and may be the driver's.
func (d driver) listed(dir, prefix string) []string {
	var names []string
	for _, name := range d.root.names(dir) {
		if strings.HasPrefix(name, prefix) && strings.Contains(name, ".so") && ofNVIDIA(name) {
			names = append(names, path.Join(dir, name))
		}
	}
	return names
}

func directories(names []string) []string {
	var dirs []string
	for _, name := range names {
		if dir := path.Dir(name); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// ofNVIDIA tells by its name a library that may be the driver's. Others of
// NVIDIA's (CUDA's toolkit) are told apart by their version, see ours.
func ofNVIDIA(name string) bool {
	return slices.ContainsFunc([]string{
		"libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvidia-", "libnvoptix.so", "libGLX_nvidia.so",
		"libEGL_nvidia.so", "libGLESv1_CM_nvidia.so", "libGLESv2_nvidia.so", "libvdpau_nvidia.so",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// ours reports whether a library's file is one of the driver's: it ends in the
// driver's version, but for a few that have versions of their own.
func (d driver) ours(file string) bool {
	if !ofNVIDIA(file) {
		return false
	}
	return d.version != "" && strings.HasSuffix(file, ".so."+d.version) ||
		strings.HasPrefix(file, "libnvidia-egl-") || strings.HasPrefix(file, "libnvidia-api.so")
}

// versionOf takes the driver's version from the name of the CUDA library.
func (d driver) versionOf(names []string) string {
	for _, name := range names {
		if version, ok := strings.CutPrefix(path.Base(d.root.resolve(name)), "libcuda.so."); ok && isVersion(version) {
			return version
		}
	}
	return ""
}

// linksTo are the links that the driver has to a library of its own, and those
// that programs expect though the driver's package may not bring them.
func (d driver) linksTo(real string) []Link {
	dir, base := path.Split(real)
	stem, _, _ := strings.Cut(base, ".so")
	var links []Link
	add := func(name, target string) {
		if !slices.ContainsFunc(links, func(l Link) bool { return l.Path == name }) {
			links = append(links, Link{Path: name, Target: target})
		}
	}
	candidates := []string{dir + "gbm/nvidia-drm_gbm.so"}
	for _, name := range d.root.names(dir) {
		if strings.HasPrefix(name, stem+".so") {
			candidates = append(candidates, dir+name)
		}
	}
	for _, name := range candidates {
		if target := d.root.target(name); target != "" && !strings.Contains(target, "::") && d.root.resolve(name) == real {
			add(name, target)
		}
	}
	switch stem {
	case "libcuda", "libnvidia-opticalflow", "libnvidia-ml":
		add(dir+stem+".so.1", base)
		add(dir+stem+".so", stem+".so.1")
	case "libGLX_nvidia":
		add(dir+"libGLX_indirect.so.0", base)
	}
	slices.SortFunc(links, func(a, b Link) int { return strings.Compare(a.Path, b.Path) })
	return links
}
