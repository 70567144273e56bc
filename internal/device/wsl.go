package device

import (
	"path"
	"strings"
)

// wsl finds what Windows shares of its NVIDIA GPUs with its Linux: one node for
// all of them, and the driver's files, which lie in directories of Windows' driver
// store. The directory of NVIDIA's is the one that has CUDA.
func (s *scan) wsl() []Device {
	n, ok := s.nodeAt("/dev/dxg")
	stores := s.glob("/usr/lib/wsl/drivers/*/libcuda.so.1.1")
	if !ok || len(stores) == 0 {
		return nil
	}
	d := Device{Name: "dxg", Nodes: []Node{n}, Attributes: attributes{AttrKernel: "dxg"}}
	same := func(name string) File { return File{Path: name, HostPath: name} }
	if core := "/usr/lib/wsl/lib/libdxcore.so"; s.regular(core) {
		d.Libraries = append(d.Libraries, Library{File: same(core)})
	}
	for _, store := range stores {
		store = path.Dir(store)
		for _, name := range s.names(store) {
			file := path.Join(store, name)
			switch {
			case s.resolve(file) != file || !s.regular(file):
			case strings.Contains(name, ".so"):
				d.Libraries = append(d.Libraries, Library{File: same(file)})
			case strings.HasSuffix(name, ".bin"), strings.HasSuffix(name, ".dll"):
				d.Files = append(d.Files, same(file))
			case name == "nvidia-smi" && len(d.Binaries) == 0:
				d.Binaries = append(d.Binaries, File{Path: "/usr/bin/nvidia-smi", HostPath: file})
			}
		}
	}
	return []Device{d}
}
