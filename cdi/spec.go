// Package cdi reads, checks, finds, injects and writes Container Device
// Interface specs, versions 0.3.0 to 1.1.0. It does what the specification's
// text says, clause by clause (the ids such as CDI-048 are those of
// spec/requirements.tsv), and depends on little more than the types of the OCI
// runtime specification.
package cdi

// Spec is one CDI file: devices of one kind. Zero values stand for absent fields
// (CDI-017).
type Spec struct {
	// Version is the version of the specification that the file follows
	// (CDI-038); Write fills in the lowest that will do.
	Version string `json:"cdiVersion"`
	// Kind is the devices' kind, vendor.com/class (CDI-040).
	Kind        string            `json:"kind"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Devices holds at least one device (CDI-048).
	Devices []Device `json:"devices"`
	// ContainerEdits are made once if any of the devices is injected (CDI-058).
	ContainerEdits ContainerEdits `json:"containerEdits,omitzero"`
}

// Device is one device that a container can ask for by name.
type Device struct {
	Name           string            `json:"name"`
	Annotations    map[string]string `json:"annotations,omitempty"`
	ContainerEdits ContainerEdits    `json:"containerEdits"`
}

// ContainerEdits are changes to the configuration of a container (CDI-033). No
// pointer in it is nil.
type ContainerEdits struct {
	Env         []string      `json:"env,omitempty"` // NAME=VALUE
	DeviceNodes []*DeviceNode `json:"deviceNodes,omitempty"`
	NetDevices  []*NetDevice  `json:"netDevices,omitempty"` // since 1.1.0
	Mounts      []*Mount      `json:"mounts,omitempty"`
	Hooks       []*Hook       `json:"hooks,omitempty"`
	// AdditionalGIDs is read under the name additionalGIDs too, which the
	// specification's example has (CDI-094); 0 is ignored (CDI-096). Since 0.7.0.
	AdditionalGIDs []uint32  `json:"additionalGids,omitempty"`
	IntelRdt       *IntelRdt `json:"intelRdt,omitempty"` // since 0.7.0
}

// IsZero reports whether there is nothing to edit.
func (e ContainerEdits) IsZero() bool {
	return len(e.Env) == 0 && len(e.DeviceNodes) == 0 && len(e.NetDevices) == 0 && len(e.Mounts) == 0 &&
		len(e.Hooks) == 0 && len(e.AdditionalGIDs) == 0 && e.IntelRdt == nil
}

// DeviceNode is a device node to make in the container (CDI-034).
type DeviceNode struct {
	Path string `json:"path"` // in the container
	// HostPath is the node on the host; empty means Path (CDI-064). Since 0.5.0.
	HostPath string `json:"hostPath,omitempty"`
	// Type is b, c, u or p; with Major and Minor it is read from the host where
	// it is empty.
	Type  string `json:"type,omitempty"`
	Major int64  `json:"major,omitempty"`
	Minor int64  `json:"minor,omitempty"`
	// FileMode is the node's mode; nil leaves it to the runtime.
	FileMode *uint32 `json:"fileMode,omitempty"`
	// Permissions is what the container's cgroup may do, of r, w and m
	// (CDI-069); empty means all.
	Permissions string  `json:"permissions,omitempty"`
	UID         *uint32 `json:"uid,omitempty"`
	GID         *uint32 `json:"gid,omitempty"`
}

// NetDevice is a network interface of the host to move into the container.
type NetDevice struct {
	HostInterfaceName string `json:"hostInterfaceName"`
	Name              string `json:"name"` // in the container
}

// Mount is a mount to make in the container (CDI-035).
type Mount struct {
	HostPath      string `json:"hostPath"`
	ContainerPath string `json:"containerPath"`
	// Type is the file system's; empty means a bind mount. Since 0.4.0.
	Type    string   `json:"type,omitempty"`
	Options []string `json:"options,omitempty"`
}

// Hook is a command to run at a point of the container's life (CDI-036).
type Hook struct {
	HookName string   `json:"hookName"` // such as createContainer (CDI-079)
	Path     string   `json:"path"`     // absolute, on the host (CDI-082)
	Args     []string `json:"args,omitempty"`
	Env      []string `json:"env,omitempty"`
	// Timeout is in seconds, above zero (CDI-086); nil means none (CDI-087).
	Timeout *int `json:"timeout,omitempty"`
}

// IntelRdt are the container's settings of Linux resctrl (CDI-037).
type IntelRdt struct {
	ClosID        string `json:"closID,omitempty"`
	L3CacheSchema string `json:"l3CacheSchema,omitempty"`
	MemBwSchema   string `json:"memBwSchema,omitempty"`
	// EnableCMT and EnableMBM were taken out again by 1.1.0.
	EnableCMT bool `json:"enableCMT,omitempty"`
	EnableMBM bool `json:"enableMBM,omitempty"`
	// Schemata and EnableMonitoring came with 1.1.0.
	Schemata         []string `json:"schemata,omitempty"`
	EnableMonitoring bool     `json:"enableMonitoring,omitempty"`
}
