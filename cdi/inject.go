package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// Ref is a device with the spec that it is from. Both are valid, as Parse and
// Validate have them, and are never changed: any number of injections may share
// them.
type Ref struct {
	Spec   *Spec
	Device *Device
}

// String is the device's qualified name.
func (r Ref) String() string { return QualifiedName(r.Spec.Kind, r.Device.Name) }

// Inject makes the edits of the devices in a container's configuration: for each
// device in turn those of its spec, once for each spec (CDI-058), and its own,
// once however often it is asked for. On error c is as it was. What c shares
// memory with, and the specs, stay as they are too.
//
// What the specification leaves open: a variable, mount or device node takes the
// place of an earlier one of the same name, destination or path. Mounts are
// sorted so that none hides another that lies below it. Device numbers that a
// spec does not give are read from the host now. A device node without owner
// belongs to the container's user. A bind mount without bind among its options
// gets rbind. Two intelRdt, or two names for one interface, are an error.
func Inject(c *oci.Spec, devices ...Ref) error {
	if c == nil {
		return errors.New("inject devices: there is no container configuration")
	}
	in := injection{config: c}
	in.collect(devices)
	for i := range in.edits {
		if err := in.prepare(in.edits[i].edits); err != nil {
			return fmt.Errorf("inject device %s: %w", in.edits[i].of, err)
		}
	}
	in.apply()
	return nil
}

// injection is one call of Inject: first all that can fail, then the changes.
type injection struct {
	config *oci.Spec
	edits  []owned
	few    [8]owned // memory for edits
	counts struct{ env, nodes, mounts, gids, words int }

	nodes *keyed[oci.LinuxDevice] // what linux.devices becomes; nil while there are none
	rules []oci.LinuxDeviceCgroup // what is to be appended
	nets  map[string]oci.LinuxNetDevice
	rdt   *oci.LinuxIntelRdt

	hosts   map[string]hostNode // the nodes looked at
	numbers []int64             // memory for the rules' device numbers
	words   []string            // memory for the lists of strings that go into the configuration
}

// owned are edits with the device that brought them.
type owned struct {
	edits *ContainerEdits
	of    Ref
}

// collect lists the edits in their order, each once, and counts what they hold.
func (in *injection) collect(devices []Ref) {
	in.edits = in.few[:0]
	if 2*len(devices) > len(in.few) {
		in.edits = make([]owned, 0, 2*len(devices))
	}
	var seen map[*ContainerEdits]bool
	if len(devices) > 8 {
		seen = make(map[*ContainerEdits]bool, 2*len(devices))
	}
	for _, d := range devices {
		for _, e := range [2]*ContainerEdits{&d.Spec.ContainerEdits, &d.Device.ContainerEdits} {
			if seen == nil {
				if slices.ContainsFunc(in.edits, func(o owned) bool { return o.edits == e }) {
					continue
				}
			} else if seen[e] {
				continue
			} else {
				seen[e] = true
			}
			in.edits = append(in.edits, owned{e, d})
			in.count(e)
		}
	}
}

func (in *injection) count(e *ContainerEdits) {
	n := &in.counts
	n.env += len(e.Env)
	n.nodes += len(e.DeviceNodes)
	n.mounts += len(e.Mounts)
	n.gids += len(e.AdditionalGIDs)
	for _, m := range e.Mounts {
		if m != nil {
			n.words += len(m.Options)
			if !saysBind(m) {
				n.words += 2
			}
		}
	}
	for _, h := range e.Hooks {
		if h != nil {
			n.words += len(h.Args) + len(h.Env)
		}
	}
}

// prepare does for one set of edits what can fail, and changes nothing.
func (in *injection) prepare(e *ContainerEdits) error {
	if slices.Contains(e.DeviceNodes, nil) || slices.Contains(e.Mounts, nil) || slices.Contains(e.Hooks, nil) || slices.Contains(e.NetDevices, nil) {
		return fmt.Errorf("a list of the edits holds nil: %w", ErrInvalid)
	}
	for _, n := range e.DeviceNodes {
		if err := in.prepareNode(n); err != nil {
			return err
		}
	}
	for _, h := range e.Hooks {
		if hookList(&oci.Hooks{}, h.HookName) == nil {
			return fmt.Errorf("%q is no hook of an OCI runtime: %w", h.HookName, ErrInvalid)
		}
	}
	for _, n := range e.NetDevices {
		if err := in.prepareNet(n); err != nil {
			return err
		}
	}
	return in.prepareRdt(e.IntelRdt)
}

// ErrConflict says that devices cannot be injected together, or not into this
// container.
var ErrConflict = errors.New("conflicting edits")

// prepareNet moves an interface into the container, where its name must be free.
func (in *injection) prepareNet(n *NetDevice) error {
	if in.nets == nil {
		in.nets = map[string]oci.LinuxNetDevice{}
		if in.config.Linux != nil {
			for host, d := range in.config.Linux.NetDevices {
				in.nets[host] = d
			}
		}
	}
	for host, d := range in.nets {
		if name := d.Name; (host == n.HostInterfaceName) != (name == n.Name || name == "" && host == n.Name) {
			return fmt.Errorf("interface %s as %s: interface %s is %s in the container already: %w", n.HostInterfaceName, n.Name, host, cmp.Or(name, host), ErrConflict)
		}
	}
	in.nets[n.HostInterfaceName] = oci.LinuxNetDevice{Name: n.Name}
	return nil
}

// prepareRdt takes the one intelRdt that there may be. Cache and bandwidth
// monitoring became one switch in OCI 1.3.
func (in *injection) prepareRdt(r *IntelRdt) error {
	if r == nil {
		return nil
	}
	want := &oci.LinuxIntelRdt{
		ClosID: r.ClosID, L3CacheSchema: r.L3CacheSchema, MemBwSchema: r.MemBwSchema, Schemata: slices.Clone(r.Schemata),
		EnableMonitoring: r.EnableMonitoring || r.EnableCMT || r.EnableMBM,
	}
	have := in.rdt
	if have == nil && in.config.Linux != nil {
		have = in.config.Linux.IntelRdt
	}
	if have != nil && !reflect.DeepEqual(have, want) {
		return fmt.Errorf("intelRdt differs from that of another device or of the container: %w", ErrConflict)
	}
	in.rdt = want
	return nil
}

// apply makes the changes; none of them can fail.
func (in *injection) apply() {
	if in.counts.env > 0 || in.counts.gids > 0 {
		in.applyProcess()
	}
	if in.counts.mounts > 0 {
		in.applyMounts()
	}
	in.applyHooks()
	if in.nodes != nil || in.nets != nil || in.rdt != nil {
		in.applyLinux()
	}
}

func (in *injection) applyProcess() {
	process := oci.Process{}
	if in.config.Process != nil {
		process = *in.config.Process
	}
	if in.counts.env > 0 {
		env := newKeyed(process.Env, in.counts.env, func(kv *string) string {
			name, _, _ := strings.Cut(*kv, "=")
			return name
		})
		for _, o := range in.edits {
			for _, kv := range o.edits.Env {
				env.put(kv)
			}
		}
		process.Env = env.list()
	}
	process.User.AdditionalGids = in.groups(process.User.AdditionalGids)
	in.config.Process = &process
}

// groups appends the group ids that are not there yet (CDI-095, CDI-096).
func (in *injection) groups(have []uint32) []uint32 {
	if in.counts.gids == 0 {
		return have
	}
	groups := append(make([]uint32, 0, len(have)+in.counts.gids), have...)
	for _, o := range in.edits {
		for _, gid := range o.edits.AdditionalGIDs {
			if gid != 0 && !slices.Contains(groups, gid) {
				groups = append(groups, gid)
			}
		}
	}
	return groups
}

func (in *injection) applyMounts() {
	mounts := newKeyed(in.config.Mounts, in.counts.mounts, func(m *oci.Mount) string { return m.Destination })
	for _, o := range in.edits {
		for _, m := range o.edits.Mounts {
			mounts.put(oci.Mount{Source: m.HostPath, Destination: m.ContainerPath, Type: m.Type, Options: in.options(m)})
		}
	}
	in.config.Mounts = sortMounts(mounts.list())
}

// options are the mount's own, and what a bind mount cannot do without.
func (in *injection) options(m *Mount) []string {
	switch {
	case saysBind(m) || !isBind(m):
		return in.list(m.Options)
	case len(m.Options) == 0:
		return in.list([]string{"rbind", "rprivate"})
	}
	list := in.list(m.Options)
	in.words = append(in.words, "rbind")
	return in.words[len(in.words)-len(list)-1 : len(in.words) : len(in.words)]
}

// list copies strings into the injection's own memory: what goes into the
// configuration may be changed there, and the spec must not change with it.
func (in *injection) list(from []string) []string {
	if len(from) == 0 {
		return nil
	}
	if in.words == nil {
		in.words = make([]string, 0, in.counts.words)
	}
	begin := len(in.words)
	in.words = append(in.words, from...)
	return in.words[begin:len(in.words):len(in.words)]
}

// sortMounts puts mounts with fewer elements in their destination first and
// leaves those with as many in their order.
func sortMounts(mounts []oci.Mount) []oci.Mount {
	depth := func(m *oci.Mount) int { return strings.Count(strings.TrimRight(m.Destination, "/"), "/") }
	sorted := true
	for i := 1; i < len(mounts) && sorted; i++ {
		sorted = depth(&mounts[i-1]) <= depth(&mounts[i])
	}
	if !sorted {
		slices.SortStableFunc(mounts, func(a, b oci.Mount) int { return depth(&a) - depth(&b) })
	}
	return mounts
}

func (in *injection) applyHooks() {
	var hooks *oci.Hooks
	for _, o := range in.edits {
		for _, h := range o.edits.Hooks {
			if hooks == nil {
				hooks = &oci.Hooks{}
				if in.config.Hooks != nil {
					*hooks = clippedHooks(in.config.Hooks)
				}
				in.config.Hooks = hooks
			}
			list := hookList(hooks, h.HookName)
			*list = append(*list, oci.Hook{Path: h.Path, Args: in.list(h.Args), Env: in.list(h.Env), Timeout: clone(h.Timeout)})
		}
	}
}

// clippedHooks copies the lists so that appending to one leaves the array of the
// original alone.
func clippedHooks(h *oci.Hooks) oci.Hooks {
	c := *h
	for _, name := range hookNames {
		list := hookList(&c, name)
		*list = slices.Clip(*list)
	}
	return c
}

var hookNames = []string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}

// hookList is the list of one kind of hook, nil if there is no such kind
// (CDI-098).
func hookList(h *oci.Hooks, name string) *[]oci.Hook {
	switch name {
	case "prestart":
		//lint:ignore SA1019 deprecated, and in use
		return &h.Prestart
	case "createRuntime":
		return &h.CreateRuntime
	case "createContainer":
		return &h.CreateContainer
	case "startContainer":
		return &h.StartContainer
	case "poststart":
		return &h.Poststart
	case "poststop":
		return &h.Poststop
	}
	return nil
}
