package cdi

import (
	"slices"
	"strings"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// apply makes the changes; none of them can fail.
func (in *injection) apply() {
	n := &in.counts
	words := n.words
	if n.env > 0 && in.config.Process != nil {
		words += len(in.config.Process.Env)
	}
	in.words = room(in.words, words)
	if n.env > 0 || n.gids > 0 {
		in.applyProcess()
	}
	if n.mounts > 0 {
		in.applyMounts()
	}
	if n.hooks != [len(hookNames)]int{} {
		in.applyHooks()
	}
	if n.nodes > 0 || in.nets != nil || in.rdt != nil {
		in.applyLinux()
	}
}

// list copies strings into the injection's own memory: what goes into the
// configuration may be changed there, and the spec must not change with it.
func (in *injection) list(from, more []string) []string {
	if len(from)+len(more) == 0 {
		return nil
	}
	begin := len(in.words)
	in.words = append(append(in.words, from...), more...)
	return in.words[begin:len(in.words):len(in.words)]
}

func (in *injection) applyProcess() {
	process := &in.parts.process
	if in.config.Process != nil {
		*process = *in.config.Process
	}
	if in.counts.env > 0 {
		process.Env = in.environment(process.Env)
	}
	if in.counts.gids > 0 {
		process.User.AdditionalGids = in.groups(process.User.AdditionalGids)
	}
	in.config.Process = process
}

// environment is have with the variables of the edits.
func (in *injection) environment(have []string) []string {
	in.names.begin(len(have) + in.counts.env)
	begin := len(in.words)
	in.words = append(in.words, have...)
	for _, kv := range have {
		in.names.have(variable(kv))
	}
	for _, o := range in.edits {
		in.words = append(in.words, o.edits.Env...)
		for _, kv := range o.edits.Env {
			if name := variable(kv); in.names.put(name) {
				in.names.bury(name, len(have))
			}
		}
	}
	return living(&in.names, in.words[begin:len(in.words):len(in.words)])
}

func variable(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// groups appends the group ids that are not there yet (CDI-095, CDI-096).
func (in *injection) groups(have []uint32) []uint32 {
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
	have := in.config.Mounts
	in.names.begin(len(have) + in.counts.mounts)
	for i := range have {
		in.names.have(have[i].Destination)
	}
	for _, o := range in.edits {
		for _, m := range o.edits.Mounts {
			in.names.put(m.ContainerPath)
		}
	}
	left := len(in.names.list) - in.names.gone
	mounts := room(in.mounts, left)[:left]
	places := in.places()
	for i := range have {
		if places[i] >= 0 {
			mounts[places[i]] = have[i]
		}
	}
	places = places[len(have):]
	for _, o := range in.edits {
		for _, m := range o.edits.Mounts {
			if places[0] >= 0 {
				mount := &mounts[places[0]]
				mount.Source, mount.Destination, mount.Type = m.HostPath, m.ContainerPath, m.Type
				mount.Options = in.list(m.Options, missingOptions(m))
			}
			places = places[1:]
		}
	}
	in.config.Mounts = mounts
}

// places says where each mount goes, -1 for one that is replaced: those with
// fewer elements in their destination come first, and those with as many stay in
// their order.
func (in *injection) places() []int {
	in.depths = in.depths[:0]
	deepest := 0
	for i, destination := range in.names.list {
		depth := -1
		if !in.names.dead[i] {
			depth = strings.Count(strings.TrimRight(destination, "/"), "/")
		}
		in.depths = append(in.depths, depth)
		deepest = max(deepest, depth)
	}
	// How many have a depth, and then where the next of that depth goes.
	in.next = append(in.next[:0], make([]int, deepest+1)...)
	for _, depth := range in.depths {
		if depth >= 0 {
			in.next[depth]++
		}
	}
	first := 0
	for depth, n := range in.next {
		in.next[depth] = first
		first += n
	}
	for i, depth := range in.depths {
		if depth >= 0 {
			in.depths[i] = in.next[depth]
			in.next[depth]++
		}
	}
	return in.depths
}

var bindOptions = []string{"rbind", "rprivate"}

// missingOptions are those that a bind mount cannot do without and does not have.
func missingOptions(m *Mount) []string {
	switch {
	case saysBind(m) || !isBind(m):
		return nil
	case len(m.Options) == 0:
		return bindOptions
	}
	return bindOptions[:1]
}

// hookNames are the kinds of hooks of an OCI runtime (CDI-098).
var hookNames = [...]string{"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}

// hookLists are the lists of hooks by kind.
func hookLists(h *oci.Hooks) [len(hookNames)]*[]oci.Hook {
	//lint:ignore SA1019 prestart is deprecated, and in use
	return [...]*[]oci.Hook{&h.Prestart, &h.CreateRuntime, &h.CreateContainer, &h.StartContainer, &h.Poststart, &h.Poststop}
}

func (in *injection) applyHooks() {
	hooks := &in.parts.hookLists
	if in.config.Hooks != nil {
		*hooks = *in.config.Hooks
	}
	lists := hookLists(hooks)
	size := 0
	for kind, n := range in.counts.hooks {
		if n > 0 {
			size += n + len(*lists[kind])
		}
	}
	all := room(in.hooks, size)
	for kind, n := range in.counts.hooks {
		if n == 0 {
			continue
		}
		begin := len(all)
		all = append(all, *lists[kind]...)
		for _, o := range in.edits {
			for _, h := range o.edits.Hooks {
				if h.HookName == hookNames[kind] {
					hook := next(&all)
					hook.Path, hook.Args, hook.Env, hook.Timeout = h.Path, in.list(h.Args, nil), in.list(h.Env, nil), clone(h.Timeout)
				}
			}
		}
		*lists[kind] = all[begin:len(all):len(all)]
	}
	in.config.Hooks = hooks
}

func (in *injection) applyLinux() {
	linux, resources := &in.parts.linux, &in.parts.resources
	if in.config.Linux != nil {
		*linux = *in.config.Linux
	}
	if in.counts.nodes > 0 {
		linux.Devices = in.nodes
	}
	if len(in.rules) > in.before {
		if linux.Resources != nil {
			*resources = *linux.Resources
		}
		resources.Devices = in.rules
		linux.Resources = resources
	}
	if in.nets != nil {
		linux.NetDevices = in.nets
	}
	if in.rdt != nil {
		linux.IntelRdt = in.rdt
	}
	in.config.Linux = linux
}
