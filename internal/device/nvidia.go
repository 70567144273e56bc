package device

import (
	"path"
	"slices"
	"strings"
)

// gpu is what NVIDIA's driver tells of a GPU.
type gpu struct {
	pci, uuid, model, minor string
}

// nvidia finds GPUs, their slices (MIG), and what else NVIDIA's driver has nodes
// for: "control" is all that programs need besides a GPU.
func (s *scan) nvidia() []Device {
	driver, err := s.driver()
	if err != nil {
		return nil
	}
	defer driver.root.close()
	control := driver.nodes("control", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
	var all []Device
	for _, g := range s.gpus() {
		all = append(all, driver.gpu(g, control)...)
	}
	if len(all) == 0 && len(control) == 0 {
		return s.wsl()
	}
	if len(control) > 0 {
		all = append(all, Device{Name: "control", Nodes: control, Attributes: attributes{}})
	}
	driver.install(all)
	for _, kind := range []string{"config", "monitor"} {
		if n, ok := driver.capability("mig/" + kind); ok {
			all = append(all, Device{Name: "mig-" + kind, Nodes: []Node{n}, Attributes: attributes{}})
		}
	}
	const channels = "/dev/nvidia-caps-imex-channels"
	for _, name := range s.names(channels) {
		if number, ok := strings.CutPrefix(name, "channel"); ok && isNumber(number) {
			all = append(all, Device{Name: "imex-" + name, Nodes: driver.nodes("", "nvidia-caps-imex-channels/"+name)})
		}
	}
	return all
}

// gpus lists the GPUs that the driver drives. Where /proc does not tell them (in
// a container that hides it), their nodes do.
func (s *scan) gpus() []gpu {
	var all []gpu
	for _, address := range s.names("/proc/driver/nvidia/gpus") {
		g := parseGPU(s.read(path.Join("/proc/driver/nvidia/gpus", address, "information")))
		if g.pci == "" && isPCI(address) {
			g.pci = address
		}
		if isNumber(g.minor) {
			all = append(all, g)
		}
	}
	if len(all) > 0 {
		return all
	}
	for _, name := range s.names("/dev") {
		if minor, ok := strings.CutPrefix(name, "nvidia"); ok && isNumber(minor) {
			all = append(all, gpu{minor: minor})
		}
	}
	// One of each: then it is clear which is which.
	functions := slices.DeleteFunc(s.names("/sys/bus/pci/drivers/nvidia"), func(n string) bool { return !isPCI(n) })
	if len(all) == 1 && len(functions) == 1 {
		all[0].pci = functions[0]
	}
	return all
}

// parseGPU reads /proc/driver/nvidia/gpus/*/information: lines of a name, a
// colon and a value.
func parseGPU(text string) gpu {
	var g gpu
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		value = clean(value)
		switch strings.TrimSpace(name) {
		case "Model":
			g.model = value
		case "GPU UUID":
			// Before anybody has used the GPU it is all question marks.
			if strings.HasPrefix(value, "GPU-") && !strings.Contains(value, "?") {
				g.uuid = value
			}
		case "Bus Location":
			if isPCI(value) {
				g.pci = value
			}
		case "Device Minor":
			if isNumber(value) {
				g.minor = value
			}
		}
	}
	return g
}

// gpu is a GPU and the slices that it is cut into.
func (d driver) gpu(g gpu, control []Node) []Device {
	nodes := d.nodes("gpu", "nvidia"+g.minor)
	if len(nodes) == 0 {
		return nil
	}
	hardware := d.sysdev("/sys/bus/pci/devices/" + g.pci)
	a := attributes{AttrKernel: "nvidia" + g.minor}
	if g.pci != "" && hardware.path != "" {
		a = describe(hardware)
		a[AttrKernel] = "nvidia" + g.minor
	}
	a.set(AttrPCI, g.pci)
	a.set(AttrUUID, g.uuid)
	a.set(AttrModel, g.model)
	a.set(AttrVersion, d.version)
	// Not the UUID: before anybody has used the GPU the driver does not tell it.
	name := "nvidia" + g.minor
	if g.pci != "" {
		name = safeName("pci", g.pci)
	}
	whole := Device{Name: name, Attributes: a, place: g.pci, sys: hardware.path}
	whole.Nodes = append(append(slices.Clone(nodes), control...), d.drm(g.pci)...)
	return append([]Device{whole}, d.slices(whole, g, nodes, control)...)
}

// drm are the graphics nodes of the GPU at a PCI address.
func (d driver) drm(pci string) []Node {
	if pci == "" {
		return nil
	}
	for _, card := range d.cards() {
		if card.Attributes[AttrPCI] == pci {
			return card.Nodes
		}
	}
	return nil
}

// slices are the compute instances that a GPU is cut into (MIG). Each needs the
// capability of its GPU instance and its own.
func (d driver) slices(whole Device, g gpu, nodes, control []Node) []Device {
	mig := path.Join(capabilities, "gpu"+g.minor, "mig")
	var all []Device
	for _, gi := range d.names(mig) {
		if !strings.HasPrefix(gi, "gi") || !isNumber(gi[2:]) {
			continue
		}
		for _, ci := range d.names(path.Join(mig, gi)) {
			if !strings.HasPrefix(ci, "ci") || !isNumber(ci[2:]) {
				continue
			}
			outer, ok1 := d.capability(path.Join("gpu"+g.minor, "mig", gi))
			inner, ok2 := d.capability(path.Join("gpu"+g.minor, "mig", gi, ci))
			if !ok1 || !ok2 {
				continue
			}
			outer.Role, inner.Role = gi, gi+"-"+ci
			slice := Device{Name: safeName(whole.Name, gi, ci), Attributes: attributes{}, place: whole.place, sys: whole.sys}
			for k, v := range whole.Attributes {
				slice.Attributes[k] = v
			}
			slice.Nodes = append(append(slices.Clone(nodes), outer, inner), control...)
			all = append(all, slice)
		}
	}
	return all
}

// capabilities is where the driver tells the minor number of each capability.
const capabilities = "/proc/driver/nvidia/capabilities"

// capability is the node that grants one of the driver's capabilities.
func (d driver) capability(name string) (Node, bool) {
	file := path.Join(capabilities, name)
	if !strings.HasSuffix(name, "config") && !strings.HasSuffix(name, "monitor") {
		file = path.Join(file, "access")
	}
	for line := range strings.Lines(d.read(file)) {
		if minor, ok := strings.CutPrefix(line, "DeviceFileMinor:"); ok && isNumber(strings.TrimSpace(minor)) {
			nodes := d.nodes(path.Base(name), "nvidia-caps/nvidia-cap"+strings.TrimSpace(minor))
			if len(nodes) == 1 {
				return nodes[0], true
			}
		}
	}
	return Node{}, false
}
