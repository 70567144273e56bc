package device

import (
	"path"
	"strings"
)

// tpms finds TPMs; the node with the kernel's resource manager is part of its
// TPM.
func (s *scan) tpms() []Device {
	var all []Device
	for _, d := range s.class("tpm") {
		number, ok := strings.CutPrefix(d.name(), "tpm")
		n, there := s.node(d, "tpm")
		if !ok || !there {
			continue
		}
		hardware := d.hardware()
		v := Device{Name: "tpm" + number, Nodes: []Node{n}, Attributes: describe(hardware), place: clean(d.name()), sys: d.path}
		if hardware.path != d.path { // a virtual one has no hardware
			v.Name = safeName("tpm", clean(hardware.name()))
		}
		attributes(v.Attributes).set(AttrKernel, clean(d.name()))
		attributes(v.Attributes).set(AttrVersion, d.attr("tpm_version_major"))
		if managed, ok := s.node(s.sysdev("/sys/class/tpmrm/tpmrm"+number), "managed"); ok {
			v.Nodes = append(v.Nodes, managed)
		}
		all = append(all, v)
	}
	return all
}

// ioGroups finds IOMMU groups that VFIO holds, each named for the first PCI
// function in it, and /dev/vfio/vfio by itself.
func (s *scan) ioGroups() []Device {
	control, hasControl := forAll(s.node(s.sysdev("/sys/class/misc/vfio"), "control"))
	var all []Device
	if hasControl {
		all = append(all, Device{Name: "vfio", Nodes: []Node{control}, Attributes: attributes{AttrKernel: "vfio"}})
	}
	for _, group := range s.class("vfio") {
		n, ok := s.node(group, "group")
		if !ok {
			continue
		}
		number := strings.TrimPrefix(group.name(), "noiommu-")
		a := attributes{}
		name := safeName("group", clean(group.name()))
		members := s.names(path.Join("/sys/kernel/iommu_groups", number, "devices"))
		if len(members) > 0 {
			member := s.sysdev(path.Join("/sys/kernel/iommu_groups", number, "devices", members[0]))
			a = describe(member)
			if bus := busName(member); bus != "" {
				name = bus
			}
		}
		a.set(AttrGroup, clean(number))
		a.set(AttrKernel, clean(group.name()))
		d := Device{Name: name, Nodes: []Node{n}, Attributes: a, place: clean(group.name()), sys: group.path}
		if hasControl {
			d.Nodes = append(d.Nodes, control)
		}
		all = append(all, d)
	}
	return all
}

// adapters finds RDMA adapters: InfiniBand, RoCE, iWARP.
func (s *scan) adapters() []Device {
	connections, hasConnections := forAll(s.node(s.sysdev("/sys/class/misc/rdma_cm"), "connections"))
	var all []Device
	for _, d := range s.class("infiniband") {
		hardware := d.hardware()
		v := Device{Name: busName(hardware), Attributes: describe(hardware), place: clean(d.name()), sys: d.path}
		attributes(v.Attributes).set(AttrKernel, clean(d.name()))
		attributes(v.Attributes).set(AttrUUID, d.attr("node_guid"))
		attributes(v.Attributes).set(AttrModel, d.attr("hca_type"))
		for _, class := range []string{"infiniband_verbs", "infiniband_mad", "infiniband_cm"} {
			for _, sub := range s.class(class) {
				if sub.attr("ibdev") != clean(d.name()) {
					continue
				}
				role := safeName(strings.TrimRight(clean(sub.name()), "0123456789"), sub.attr("port"))
				if n, ok := s.node(sub, role); ok {
					v.Nodes = append(v.Nodes, n)
				}
			}
		}
		if len(v.Nodes) > 0 && hasConnections {
			v.Nodes = append(v.Nodes, connections)
		}
		all = append(all, v)
	}
	return all
}
