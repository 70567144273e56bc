package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// injectCase is one directory of testdata/inject.
type injectCase struct {
	name    string
	specs   []caseFile
	devices []string
	config  []byte
	want    *caseFile
}

func readInjectCases(t *testing.T, archive string) (comment string, files []caseFile, cases []*injectCase) {
	t.Helper()
	comment, files = readCases(t, archive)
	for i := range files {
		f := &files[i]
		name, file := path.Split(f.name)
		if len(cases) == 0 || cases[len(cases)-1].name != name {
			cases = append(cases, &injectCase{name: name})
		}
		c := cases[len(cases)-1]
		switch file {
		case "devices":
			c.devices = strings.Fields(string(f.data))
		case "config.json":
			c.config = f.data
		case "want":
			c.want = f
		default:
			c.specs = append(c.specs, caseFile{file, f.data})
		}
	}
	return comment, files, cases
}

// run injects through an index of a directory with the case's specs.
func (c *injectCase) run(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range c.specs {
		must(t, os.WriteFile(filepath.Join(dir, s.name), s.data, 0o644))
	}
	index := NewIndex([]string{dir})
	var config oci.Spec
	must(t, json.Unmarshal(c.config, &config))
	before := indented(t, &config)
	if err := index.Inject(&config, c.devices...); err != nil {
		if after := indented(t, &config); after != before {
			t.Errorf("a failed injection left its mark: %s", after)
		}
		return "error: " + err.Error() + "\n"
	}
	return indented(t, &config)
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	must(t, err)
	return string(text) + "\n"
}

// TestInject runs the cases of testdata/inject.
//
// Req: CDI-019, CDI-022, CDI-054, CDI-056, CDI-057, CDI-058, CDI-060, CDI-064, CDI-087
// Req: CDI-095, CDI-096, CDI-097, CDI-098, CDI-123, CDI-124, CDI-125
func TestInject(t *testing.T) {
	for _, archive := range caseArchives(t, "inject") {
		comment, files, cases := readInjectCases(t, archive)
		for _, c := range cases {
			t.Run(strings.TrimSuffix(c.name, "/"), func(t *testing.T) {
				got := c.run(t)
				if *update {
					c.want.data = []byte(got)
				}
				if got != string(c.want.data) {
					t.Errorf("got:\n%s", got)
				}
			})
		}
		if *update {
			writeCases(t, archive, comment, files)
		}
	}
}

func refs(s *Spec) []Ref {
	var list []Ref
	for i := range s.Devices {
		list = append(list, Ref{s, &s.Devices[i]})
	}
	return list
}

// TestInjectReadsNumbersNow: a node that changes on the host changes in the next
// container.
func TestInjectReadsNumbersNow(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "needs root to make device nodes")
	}
	node := filepath.Join(t.TempDir(), "node")
	s := &Spec{Version: "0.5.0", Kind: "vendor.com/class", Devices: []Device{{Name: "d", ContainerEdits: ContainerEdits{
		DeviceNodes: []*DeviceNode{{Path: "/dev/x", HostPath: node}},
	}}}}
	for minor := range uint32(3) {
		must(t, unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3+minor))))
		var c oci.Spec
		must(t, Inject(&c, refs(s)...))
		if d := c.Linux.Devices[0]; d.Type != "c" || d.Major != 1 || d.Minor != int64(3+minor) {
			t.Errorf("got %+v", d)
		}
		must(t, os.Remove(node))
	}
}

// TestInjectSharesNothing: neither the specs nor what the configuration shares
// memory with is changed, and what is injected can be changed freely.
func TestInjectSharesNothing(t *testing.T) {
	s := fullSpec()
	s.ContainerEdits.NetDevices = nil
	s.Devices[1].ContainerEdits.DeviceNodes[0].HostPath = "/dev/null"
	before := indented(t, s)
	env := append(make([]string, 0, 10), "A=0")
	hooks := append(make([]oci.Hook, 0, 10), oci.Hook{Path: "/own"})
	mounts := append(make([]oci.Mount, 0, 10), oci.Mount{Destination: "/own"})
	c := oci.Spec{Process: &oci.Process{Env: env}, Hooks: &oci.Hooks{CreateContainer: hooks}, Mounts: mounts}
	must(t, Inject(&c, refs(s)...))
	if env[:2][1] != "" || hooks[:2][1].Path != "" || mounts[:2][1].Destination != "" {
		t.Error("wrote beyond the end of the caller's lists")
	}
	c.Mounts[0].Options = append(c.Mounts[0].Options, "x")
	for _, m := range c.Mounts {
		for i := range m.Options {
			m.Options[i] = "changed"
		}
	}
	for _, h := range c.Hooks.CreateContainer {
		for i := range h.Args {
			h.Args[i] = "changed"
		}
		if h.Timeout != nil {
			*h.Timeout = 99
		}
	}
	for i := range c.Linux.Devices {
		*c.Linux.Devices[i].GID = 99
		*c.Linux.Devices[i].FileMode = 0
	}
	c.Linux.IntelRdt.Schemata[0] = "changed"
	if after := indented(t, s); after != before {
		t.Errorf("the spec is now %s", after)
	}
}

// TestInjectMany: many devices with as many mounts go the same way as few.
func TestInjectMany(t *testing.T) {
	s := &Spec{Version: "0.3.0", Kind: "vendor.com/class"}
	for i := range 100 {
		n := fmt.Sprint("d", i)
		s.Devices = append(s.Devices, Device{Name: n, ContainerEdits: ContainerEdits{
			Env:         []string{"SAME=" + n, n + "=1"},
			Mounts:      []*Mount{{HostPath: "/h", ContainerPath: "/same"}, {HostPath: "/h", ContainerPath: "/" + n}},
			DeviceNodes: []*DeviceNode{{Path: "/dev/null"}, {Path: "/dev/" + n, Type: "c", Major: 1, Minor: int64(i)}},
		}})
	}
	all := refs(s)
	var c oci.Spec
	must(t, Inject(&c, append(all, all...)...))
	if len(c.Process.Env) != 101 || len(c.Mounts) != 101 || len(c.Linux.Devices) != 101 || len(c.Linux.Resources.Devices) != 101 {
		t.Errorf("%d variables, %d mounts, %d devices, %d rules", len(c.Process.Env), len(c.Mounts), len(c.Linux.Devices), len(c.Linux.Resources.Devices))
	}
	if last := c.Process.Env[len(c.Process.Env)-2]; last != "SAME=d99" {
		t.Errorf("the last word is %q", last)
	}
}

func TestInjectAtOnce(t *testing.T) {
	s := fullSpec()
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 50 {
				var c oci.Spec
				if err := Inject(&c, refs(s)...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
}

// TestInjectRefuses what no file could say but a program can.
func TestInjectRefuses(t *testing.T) {
	for _, e := range []ContainerEdits{
		{DeviceNodes: []*DeviceNode{nil}}, {Mounts: []*Mount{nil}}, {Hooks: []*Hook{nil}}, {NetDevices: []*NetDevice{nil}},
		{Hooks: []*Hook{{HookName: "custom", Path: "/x"}}},
	} {
		s := &Spec{Kind: "vendor.com/class", Devices: []Device{{Name: "d", ContainerEdits: e}}}
		if err := Inject(&oci.Spec{}, refs(s)...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if err := Inject(nil); err == nil {
		t.Error("injected into nothing")
	}
}

// TestInjectIncomplete: a Ref that holds nothing is refused, not followed.
func TestInjectIncomplete(t *testing.T) {
	s := fullSpec()
	for _, r := range []Ref{{}, {Spec: s}, {Device: &s.Devices[0]}} {
		if err := Inject(&oci.Spec{}, r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}

// edited injects edits into a container and returns it.
func edited(t *testing.T, c *oci.Spec, edits ...ContainerEdits) *oci.Spec {
	t.Helper()
	s := &Spec{Kind: "vendor.com/class"}
	for i, e := range edits {
		s.Devices = append(s.Devices, Device{Name: fmt.Sprint(i), ContainerEdits: e})
	}
	must(t, Inject(c, refs(s)...))
	return c
}

// TestInjectNoGroups: group 0 alone adds nothing.
//
// Req: CDI-096
func TestInjectNoGroups(t *testing.T) {
	if c := edited(t, &oci.Spec{}, ContainerEdits{AdditionalGIDs: []uint32{0}}); c.Process != nil {
		t.Errorf("process %+v", c.Process)
	}
}

// TestInjectVariableTwice: no earlier value of a variable is left before ours,
// where a program would find it first.
func TestInjectVariableTwice(t *testing.T) {
	c := &oci.Spec{Process: &oci.Process{Env: []string{"A=1", "B=2", "C=1", "C=2", "A=3"}}}
	edited(t, c, ContainerEdits{Env: []string{"A=4"}}, ContainerEdits{Env: []string{"A=5"}})
	if got := strings.Join(c.Process.Env, " "); got != "B=2 C=1 C=2 A=5" {
		t.Error(got)
	}
}

// TestInjectReplacedNode: with a node goes what it allowed, unless another needs
// it still.
func TestInjectReplacedNode(t *testing.T) {
	node := func(path string, minor int64) ContainerEdits {
		return ContainerEdits{DeviceNodes: []*DeviceNode{{Path: path, Type: "c", Major: 1, Minor: minor}}}
	}
	c := edited(t, &oci.Spec{}, node("/dev/a", 1), node("/dev/b", 2), node("/dev/a", 3), node("/dev/b", 4), node("/dev/c", 2))
	var got []int64
	for _, r := range c.Linux.Resources.Devices {
		got = append(got, *r.Minor)
	}
	if fmt.Sprint(got) != "[2 3 4 2]" || len(c.Linux.Devices) != 3 {
		t.Errorf("rules for %v", got)
	}
}

// TestInjectInterfaces: very many take no very long time, and a name is given
// once.
func TestInjectInterfaces(t *testing.T) {
	var many ContainerEdits
	for i := range 20000 {
		many.NetDevices = append(many.NetDevices, &NetDevice{HostInterfaceName: fmt.Sprint("h", i), Name: fmt.Sprint("c", i)})
	}
	c := edited(t, &oci.Spec{Linux: &oci.Linux{NetDevices: map[string]oci.LinuxNetDevice{"own": {}}}}, many)
	if len(c.Linux.NetDevices) != 20001 {
		t.Errorf("%d interfaces", len(c.Linux.NetDevices))
	}
	for _, n := range []NetDevice{{"h7", "new"}, {"new", "c7"}, {"own", "new"}, {"new", "own"}} {
		s := &Spec{Kind: "v.com/c", Devices: []Device{{Name: "d", ContainerEdits: ContainerEdits{NetDevices: []*NetDevice{&n}}}}}
		if err := Inject(c, refs(s)...); !errors.Is(err, ErrConflict) {
			t.Errorf("%v: %v", n, err)
		}
	}
	edited(t, c, ContainerEdits{NetDevices: []*NetDevice{{"h7", "c7"}, {"own", "own"}}})
}

// FuzzInject: whatever configuration is injected into, it ends without a panic.
func FuzzInject(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{}`))
	f.Add([]byte(`{"process":{"env":["A",""]},"mounts":[{}],"linux":{"devices":[{}]},"hooks":{}}`), []byte(`{"env":["A=1","B=2"],"mounts":[{"hostPath":"/","containerPath":"//"}]}`))
	f.Add([]byte(`{"linux":{"netDevices":{"a":{}}}}`), []byte(`{"netDevices":[{"hostInterfaceName":"b","name":"a"}]}`))
	f.Fuzz(func(t *testing.T, config, edits []byte) {
		s, err := Parse("x.json", []byte(`{"cdiVersion":"1.1.0","kind":"a/b","devices":[{"name":"d"}],"containerEdits":`+string(edits)+`}`))
		var c oci.Spec
		if err != nil || json.Unmarshal(config, &c) != nil {
			return
		}
		before := indented(t, &c)
		if err := Inject(&c, refs(s)...); err != nil && indented(t, &c) != before {
			t.Error("a failed injection left its mark")
		}
	})
}

func benchmarkInject(b *testing.B, n int) {
	var all []Ref
	for i := range n {
		s, err := Parse("x.json", largeSpec(fmt.Sprint("vendor.com/c", i)))
		if err != nil {
			b.Fatal(err)
		}
		for j := range s.Devices {
			for _, d := range s.Devices[j].ContainerEdits.DeviceNodes {
				d.HostPath = "/dev/null"
			}
		}
		all = append(all, Ref{s, &s.Devices[0]})
	}
	b.ReportAllocs()
	for b.Loop() {
		var c oci.Spec
		if err := Inject(&c, all...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInject1(b *testing.B)  { benchmarkInject(b, 1) }
func BenchmarkInject8(b *testing.B)  { benchmarkInject(b, 8) }
func BenchmarkInject64(b *testing.B) { benchmarkInject(b, 64) }
