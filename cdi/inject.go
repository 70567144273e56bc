package cdi

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

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
// memory with, and the specs, stay as they are too. The devices are those of one
// Resolve: two may hold two copies of a spec, which is then two specs.
//
// What the specification leaves open: a variable, mount or device node takes the
// place of an earlier one of the same name, destination or path. Mounts are
// sorted so that none hides another that lies below it. Device numbers that a
// spec does not give are read from the host now. A device node without owner
// belongs to the container's user. A bind mount without bind among its options
// gets rbind. Two intelRdt, or two names for one interface, are an error.
func Inject(c *oci.Spec, devices ...Ref) error {
	in := newInjection()
	defer in.release()
	return in.run(c, devices)
}

// injection is one call of Inject: first all that can fail, then the changes.
// What goes into the configuration is made anew each time, in as few pieces of
// memory as can be; the rest is used again by another injection.
type injection struct {
	result
	lookup lookup
	edits  []owned
	seen   map[*ContainerEdits]bool
	hosts  map[string]hostNode // the nodes looked at
	names  names
	depths []int // of mounts, and then their places
	next   []int // place by depth
}

// result is what one injection works on and makes.
type result struct {
	config *oci.Spec
	counts counts
	*parts
	// These lists are to be in the configuration, but numbers and ids, to which
	// rules and nodes point, and words, of which its lists of strings are.
	nodes   []oci.LinuxDevice
	rules   []oci.LinuxDeviceCgroup
	mounts  []oci.Mount
	hooks   []oci.Hook
	numbers []numbers
	ids     []ids
	words   []string
	nets    map[string]oci.LinuxNetDevice // nil while there are none
	taken   map[string]string             // host's interface by its name in the container
	rdt     *oci.LinuxIntelRdt

	before   int    // number of rules that the container had
	uid, gid uint32 // of the container's user
}

// parts are the structures of a configuration that an injection replaces, so as
// not to write to those that the caller has.
type parts struct {
	process   oci.Process
	linux     oci.Linux
	resources oci.LinuxResources
	hookLists oci.Hooks
}

// few are parts with lists that are long enough for a device or two, in one
// piece of memory.
type few struct {
	parts
	nodes   [4]oci.LinuxDevice
	rules   [4]oci.LinuxDeviceCgroup
	mounts  [8]oci.Mount
	hooks   [2]oci.Hook
	numbers [4]numbers
	ids     [4]ids
	words   [32]string
}

// begin makes the parts, and the lists too if there is so little to inject. The
// others come when it is known how long they are.
func (r *result) begin() {
	n := &r.counts
	if n.nodes > len(few{}.nodes) || n.mounts > len(few{}.mounts) || n.words > len(few{}.words) {
		r.parts = &parts{}
		return
	}
	f := &few{}
	r.parts = &f.parts
	r.nodes, r.rules, r.mounts, r.hooks = f.nodes[:0], f.rules[:0], f.mounts[:0], f.hooks[:0]
	r.numbers, r.ids, r.words = f.numbers[:0], f.ids[:0], f.words[:0]
}

// room is an empty list with place for n values: own if that is large enough.
func room[T any](own []T, n int) []T {
	if n <= cap(own) {
		return own[:0:n]
	}
	return make([]T, 0, n)
}

// next appends a zero value to a list that has room for it. Filled in place, field
// by field, it costs less than a whole one that is copied there, above all while
// the garbage collector is at work.
func next[T any](list *[]T) *T {
	*list = (*list)[:len(*list)+1]
	return &(*list)[len(*list)-1]
}

// counts say how much the edits hold, and at most will add.
type counts struct {
	env, nodes, ids, mounts, gids, words int

	hooks [len(hookNames)]int
}

// owned are edits with the device that brought them.
type owned struct {
	edits *ContainerEdits
	of    Ref
}

var injections = sync.Pool{New: func() any {
	return &injection{seen: map[*ContainerEdits]bool{}, hosts: map[string]hostNode{}}
}}

func newInjection() *injection { return injections.Get().(*injection) }

// maxKept bounds the memory that is kept for the next injection.
const maxKept = 4096

// release gives the memory back, without what it points to.
func (in *injection) release() {
	if len(in.names.list) > maxKept || len(in.edits) > maxKept || len(in.hosts) > maxKept {
		return
	}
	in.result = result{}
	clear(in.edits)
	clear(in.seen)
	clear(in.hosts)
	in.edits = in.edits[:0]
	in.lookup.reset()
	in.names.begin(0)
	injections.Put(in)
}

func (in *injection) run(c *oci.Spec, devices []Ref) error {
	if c == nil {
		return errors.New("inject devices: there is no container configuration")
	}
	in.config = c
	if p := c.Process; p != nil {
		in.uid, in.gid = p.User.UID, p.User.GID
	}
	if err := in.collect(devices); err != nil {
		return err
	}
	if err := in.each((*injection).count); err != nil {
		return err
	}
	in.begin()
	if in.counts.nodes > 0 {
		in.beginNodes()
	}
	if err := in.each((*injection).prepare); err != nil {
		return err
	}
	in.endNodes()
	in.apply()
	return nil
}

// each does a step for all edits in their order.
func (in *injection) each(step func(*injection, *ContainerEdits) error) error {
	for _, o := range in.edits {
		if err := step(in, o.edits); err != nil {
			return fmt.Errorf("inject device %s: %w", o.of, err)
		}
	}
	return nil
}

// collect lists the edits in their order, each once.
func (in *injection) collect(devices []Ref) error {
	for i, d := range devices {
		if d.Spec == nil || d.Device == nil {
			return fmt.Errorf("inject devices: the device with index %d has no spec, or is none: %w", i, ErrInvalid)
		}
		for _, e := range [2]*ContainerEdits{&d.Spec.ContainerEdits, &d.Device.ContainerEdits} {
			if e == &d.Spec.ContainerEdits && i > 0 && devices[i-1].Spec == d.Spec {
				continue
			}
			if len(devices) > 1 {
				if in.seen[e] {
					continue
				}
				in.seen[e] = true
			}
			in.edits = append(in.edits, owned{e, d})
		}
	}
	return nil
}

var errNil = fmt.Errorf("a list of the edits holds nil: %w", ErrInvalid)

// count adds up what the edits hold. What it refuses no file can say, but a
// program can.
func (in *injection) count(e *ContainerEdits) error {
	n := &in.counts
	n.env += len(e.Env)
	n.words += len(e.Env)
	n.nodes += len(e.DeviceNodes)
	n.mounts += len(e.Mounts)
	for _, gid := range e.AdditionalGIDs {
		if gid != 0 { // CDI-096
			n.gids++
		}
	}
	for _, m := range e.Mounts {
		if m == nil {
			return errNil
		}
		n.words += len(m.Options) + len(missingOptions(m))
	}
	for _, h := range e.Hooks {
		if h == nil {
			return errNil
		}
		kind := slices.Index(hookNames[:], h.HookName)
		if kind < 0 {
			return fmt.Errorf("%q is no hook of an OCI runtime: %w", h.HookName, ErrInvalid)
		}
		n.hooks[kind]++
		n.words += len(h.Args) + len(h.Env)
	}
	for _, d := range e.DeviceNodes {
		if d == nil {
			return errNil
		}
		if in.hasIDs(d) {
			n.ids++
		}
	}
	if slices.Contains(e.NetDevices, nil) {
		return errNil
	}
	return nil
}

// prepare does for one set of edits what can fail, and changes nothing.
func (in *injection) prepare(e *ContainerEdits) error {
	for _, n := range e.DeviceNodes {
		if err := in.prepareNode(n); err != nil {
			return err
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
		in.beginNets()
	}
	_, moved := in.nets[n.HostInterfaceName]
	host, taken := in.taken[n.Name]
	if moved {
		host = n.HostInterfaceName
	}
	if (moved || taken) && (host != n.HostInterfaceName || cmp.Or(in.nets[host].Name, host) != n.Name) {
		return fmt.Errorf("interface %s as %s: interface %s is %s in the container already: %w",
			n.HostInterfaceName, n.Name, host, cmp.Or(in.nets[host].Name, host), ErrConflict)
	}
	in.nets[n.HostInterfaceName] = oci.LinuxNetDevice{Name: n.Name}
	in.taken[n.Name] = n.HostInterfaceName
	return nil
}

// beginNets takes over the interfaces that the container has.
func (in *injection) beginNets() {
	in.nets, in.taken = map[string]oci.LinuxNetDevice{}, map[string]string{}
	if in.config.Linux == nil {
		return
	}
	for host, d := range in.config.Linux.NetDevices {
		in.nets[host] = d
		in.taken[cmp.Or(d.Name, host)] = host
	}
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
