package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"
)

// request is one injection that both libraries are asked for.
type request struct {
	name    string
	specs   map[string][]byte // by file
	config  []byte
	devices []string
}

// TestInjecting makes every injection of the corpus with both libraries.
func TestInjecting(t *testing.T) {
	d, n := differences{}, 0
	for r := range requests(t) {
		n++
		for _, id := range r.differences(t) {
			d.found(id, fmt.Sprintf("%s: %s into %s: %.600s", r.name, r.devices, r.config, r.specs))
		}
	}
	twice(t, d)
	halfDone(t, d)
	staleNumbers(t, d)
	t.Logf("%d injections, %d kinds of difference", n, len(d))
	d.check(t, rows(t, "Injecting"))
}

func (r *request) differences(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if len(slices.Compact(slices.Sorted(slices.Values(r.devices)))) < len(r.devices) {
		return nil // see twice
	}
	for name, text := range r.specs {
		if _, err := cdi.Parse(name, text); err != nil {
			return nil // that is TestReading's
		}
		if _, err := readUpstream(t, filepath.Join(dir, name), text); err != nil {
			return nil
		}
	}
	ours, our := injectOurs(t, dir, r)
	theirs, their := injectTheirs(t, dir, r)
	switch {
	case our != nil && their != nil:
		return nil
	case our != nil:
		return []string{"refuse-" + refusal(our)}
	case their != nil:
		return []string{"do-" + reasonNot(their)}
	}
	return explain(t, ours, theirs)
}

func (r *request) container(t *testing.T) *oci.Spec {
	t.Helper()
	var c oci.Spec
	if err := json.Unmarshal(r.config, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func injectOurs(t *testing.T, dir string, r *request) (*oci.Spec, error) {
	t.Helper()
	c := r.container(t)
	return c, cdi.NewIndex([]string{dir}).Inject(c, r.devices...)
}

func injectTheirs(t *testing.T, dir string, r *request) (*oci.Spec, error) {
	t.Helper()
	cache, err := upstream.NewCache(upstream.WithSpecDirs(dir), upstream.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	c := r.container(t)
	_, err = cache.InjectDevices(c, r.devices...)
	return c, err
}

// refusal is why we do not inject.
func refusal(err error) string {
	for _, r := range []struct{ id, text string }{{"rdt", "intelRdt differs"}, {"net", "in the container already"}} {
		if errors.Is(err, cdi.ErrConflict) && strings.Contains(err.Error(), r.text) {
			return r.id
		}
	}
	return err.Error()
}

// reasonNot is why upstream does not inject.
func reasonNot(err error) string {
	if regexp.MustCompile(`not a device node`).MatchString(err.Error()) {
		return "linked-node"
	}
	return err.Error()
}

// equalizers take one kind of difference away from two configurations.
var equalizers = []struct {
	id    string
	equal func(ours, theirs *oci.Spec)
}{
	{"env-twice", func(a, b *oci.Spec) {
		for _, c := range []*oci.Spec{a, b} {
			if c.Process == nil {
				continue
			}
			last := map[string]string{}
			for _, kv := range c.Process.Env {
				name, _, _ := strings.Cut(kv, "=")
				last[name] = kv
			}
			c.Process.Env = slices.DeleteFunc(c.Process.Env, func(kv string) bool {
				name, _, _ := strings.Cut(kv, "=")
				return last[name] != kv
			})
		}
	}},
	{"env-place", func(a, b *oci.Spec) {
		for _, c := range []*oci.Spec{a, b} {
			if c.Process != nil {
				slices.Sort(c.Process.Env)
			}
		}
	}},
	{"bind-options", func(a, b *oci.Spec) {
		for _, c := range []*oci.Spec{a, b} {
			for i := range c.Mounts {
				c.Mounts[i].Options = slices.DeleteFunc(c.Mounts[i].Options, func(o string) bool { return o == "rbind" || o == "rprivate" })
			}
		}
	}},
	{"idmap", func(_, b *oci.Spec) {
		for i := range b.Mounts {
			b.Mounts[i].Options = slices.DeleteFunc(b.Mounts[i].Options, func(o string) bool { return o == "idmap" || o == "ridmap" })
		}
	}},
	{"file-mode", func(a, b *oci.Spec) {
		if a.Linux == nil || b.Linux == nil {
			return
		}
		for i := range min(len(a.Linux.Devices), len(b.Linux.Devices)) {
			if a.Linux.Devices[i].FileMode == nil {
				b.Linux.Devices[i].FileMode = nil
			}
		}
	}},
	{"rule-of-u", func(a, b *oci.Spec) {
		rules(func(have []oci.LinuxDeviceCgroup) []oci.LinuxDeviceCgroup {
			return slices.DeleteFunc(have, func(r oci.LinuxDeviceCgroup) bool {
				return r.Major != nil && *r.Major == numberOfU
			})
		}, a, b)
	}},
	{"rule-of-replaced", func(a, b *oci.Spec) {
		for _, c := range []*oci.Spec{a, b} {
			rules(func(have []oci.LinuxDeviceCgroup) []oci.LinuxDeviceCgroup {
				return slices.DeleteFunc(have, func(r oci.LinuxDeviceCgroup) bool {
					return r.Major != nil && !slices.ContainsFunc(c.Linux.Devices, func(d oci.LinuxDevice) bool {
						return d.Major == *r.Major && d.Minor == *r.Minor
					})
				})
			}, c)
		}
	}},
	{"rule-twice", func(a, b *oci.Spec) {
		rules(func(have []oci.LinuxDeviceCgroup) (once []oci.LinuxDeviceCgroup) {
			for _, r := range have {
				if !slices.ContainsFunc(once, func(o oci.LinuxDeviceCgroup) bool { return text(o) == text(r) }) {
					once = append(once, r)
				}
			}
			return once
		}, a, b)
	}},
}

// numberOfU is the major number of all unbuffered devices of the corpus, and of
// no others.
const numberOfU = 4

func rules(change func([]oci.LinuxDeviceCgroup) []oci.LinuxDeviceCgroup, configs ...*oci.Spec) {
	for _, c := range configs {
		if c.Linux != nil && c.Linux.Resources != nil {
			c.Linux.Resources.Devices = change(c.Linux.Resources.Devices)
		}
	}
}

// explain finds the fewest kinds of difference that together are all there is.
func explain(t *testing.T, ours, theirs *oci.Spec) (ids []string) {
	t.Helper()
	equal := func(without string) bool {
		a, b := copied(t, ours), copied(t, theirs)
		for _, e := range equalizers {
			if e.id != without {
				e.equal(a, b)
			}
		}
		return canonical(t, []byte(text(a))) == canonical(t, []byte(text(b)))
	}
	if canonical(t, []byte(text(ours))) == canonical(t, []byte(text(theirs))) {
		return nil
	}
	if !equal("") {
		return []string{"unexplained: " + text(ours) + " and " + text(theirs)}
	}
	for _, e := range equalizers {
		if !equal(e.id) {
			ids = append(ids, e.id)
		}
	}
	return ids
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func copied(t *testing.T, c *oci.Spec) *oci.Spec {
	t.Helper()
	var to oci.Spec
	if err := json.Unmarshal([]byte(text(c)), &to); err != nil {
		t.Fatal(err)
	}
	return &to
}

func plain(t *testing.T, spec string, devices ...string) (*request, string) {
	t.Helper()
	r := &request{name: t.Name(), specs: map[string][]byte{"x.json": []byte(spec)}, config: []byte(`{"process": {"env": ["P=1"]}}`), devices: devices}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.json"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	return r, dir
}

// twice: a device that is asked for twice.
func twice(t *testing.T, d differences) {
	r, dir := plain(t, `{"cdiVersion": "0.5.0", "kind": "a.com/b", "devices": [{"name": "c", "containerEdits": {"hooks": [{"hookName": "poststop", "path": "/h"}]}}]}`, "a.com/b=c", "a.com/b=c")
	ours, our := injectOurs(t, dir, r)
	theirs, their := injectTheirs(t, dir, r)
	if our != nil || their != nil || len(ours.Hooks.Poststop) != 1 {
		t.Fatal(our, their, text(ours))
	}
	if len(theirs.Hooks.Poststop) == 2 {
		d.found("device-twice", "its hooks run twice")
	}
}

// halfDone: an injection that fails.
func halfDone(t *testing.T, d differences) {
	r, dir := plain(t, `{"cdiVersion": "0.5.0", "kind": "a.com/b", "devices": [{"name": "c", "containerEdits": {"env": ["HALF=1"], "deviceNodes": [{"path": "/dev/absent-node"}]}}]}`, "a.com/b=c")
	ours, our := injectOurs(t, dir, r)
	theirs, their := injectTheirs(t, dir, r)
	if our == nil || their == nil || text(ours) != text(r.container(t)) {
		t.Fatal(our, their, text(ours))
	}
	if text(theirs) != text(r.container(t)) {
		d.found("half-done", text(theirs))
	}
}

// staleNumbers: a node of the host has other numbers in the next container.
func staleNumbers(t *testing.T, d differences) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make device nodes")
	}
	node := filepath.Join(t.TempDir(), "node")
	r, dir := plain(t, fmt.Sprintf(`{"cdiVersion": "0.5.0", "kind": "a.com/b", "devices": [{"name": "c", "containerEdits": {"deviceNodes": [{"path": "/dev/x", "hostPath": %q}]}}]}`, node), "a.com/b=c")
	index := cdi.NewIndex([]string{dir})
	cache, err := upstream.NewCache(upstream.WithSpecDirs(dir), upstream.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	for minor := range uint32(2) {
		_ = os.Remove(node)
		if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3+minor))); err != nil {
			t.Fatal(err)
		}
		ours, theirs := r.container(t), r.container(t)
		_, their := cache.InjectDevices(theirs, r.devices...)
		if err := errors.Join(index.Inject(ours, r.devices...), their); err != nil {
			t.Fatal(err)
		}
		if got := ours.Linux.Devices[0].Minor; got != int64(3+minor) {
			t.Fatalf("minor %d", got)
		}
		if theirs.Linux.Devices[0].Minor != int64(3+minor) {
			d.found("stale-numbers", text(theirs.Linux.Devices))
		}
	}
}
