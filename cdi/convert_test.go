package cdi

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	full := fullSpec()
	full.Version = "1.1.0"
	for _, to := range Versions[:len(Versions)-1] {
		if _, err := Convert(full, to); !errors.Is(err, ErrLoss) || !errors.Is(err, ErrInvalid) {
			t.Errorf("1.1.0 as %s: %v", to, err)
		}
	}
	_, err := Convert(full, "0.6.0")
	var lost []string
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	for _, p := range problems {
		lost = append(lost, p.Path)
	}
	if want := []string{
		"$.containerEdits.netDevices", "$.containerEdits.additionalGids", "$.containerEdits.intelRdt",
		"$.containerEdits.intelRdt.schemata", "$.containerEdits.intelRdt.enableMonitoring",
	}; !slices.Equal(lost, want) {
		t.Errorf("lost: %v", lost)
	}
	plain := bucketSpec()
	plain.Version = "1.1.0"
	for _, to := range Versions {
		got, err := Convert(plain, to)
		must(t, err)
		if got.Version != to || plain.Version != "1.1.0" {
			t.Errorf("to %s: %s, and the original %s", to, got.Version, plain.Version)
		}
	}
	for _, to := range []string{"", "0.1.0", "2.0.0", "x"} {
		if _, err := Convert(plain, to); !errors.Is(err, ErrInvalid) || errors.Is(err, ErrLoss) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	rdt := bucketSpec()
	rdt.Version = "0.7.0"
	rdt.ContainerEdits.IntelRdt = &IntelRdt{EnableMBM: true}
	got, err := Convert(rdt, "1.1.0")
	must(t, err)
	if r := got.ContainerEdits.IntelRdt; !r.EnableMonitoring || r.EnableMBM || !rdt.ContainerEdits.IntelRdt.EnableMBM {
		t.Errorf("monitoring became %+v", r)
	}
}

func TestTransformRoot(t *testing.T) {
	s := &Spec{Version: "0.3.0", Kind: "v.com/c", Devices: []Device{{Name: "d", ContainerEdits: ContainerEdits{
		DeviceNodes: []*DeviceNode{{Path: "/dev/x"}, {Path: "/driver/dev/y"}},
	}}}, ContainerEdits: ContainerEdits{
		Mounts: []*Mount{
			{HostPath: "/driver/lib/a.so", ContainerPath: "/driver/lib/a.so"}, {HostPath: "/driver2/b", ContainerPath: "/b"},
			{HostPath: "/driver", ContainerPath: "/c"}, {HostPath: "/driver/../etc", ContainerPath: "/d"},
		},
		Hooks: []*Hook{{HookName: "poststop", Path: "/driver/bin/hook"}},
	}}
	before := indented(t, s)
	got, err := TransformRoot(s, "/driver/", "/run/driver")
	must(t, err)
	var paths []string
	for _, n := range got.Devices[0].ContainerEdits.DeviceNodes {
		paths = append(paths, n.Path+"<"+n.HostPath)
	}
	for _, m := range got.ContainerEdits.Mounts {
		paths = append(paths, m.ContainerPath+"<"+m.HostPath)
	}
	paths = append(paths, got.ContainerEdits.Hooks[0].Path, got.Version)
	if want := []string{
		"/dev/x<", "/driver/dev/y</run/driver/dev/y", "/driver/lib/a.so</run/driver/lib/a.so", "/b</driver2/b", "/c</run/driver",
		"/d</driver/../etc", "/run/driver/bin/hook", "0.5.0",
	}; !slices.Equal(paths, want) {
		t.Errorf("got %q", paths)
	}
	if indented(t, s) != before {
		t.Error("the original has changed")
	}
	got, err = TransformRoot(s, "/", "/host")
	must(t, err)
	if got.Devices[0].ContainerEdits.DeviceNodes[0].HostPath != "/host/dev/x" || got.ContainerEdits.Mounts[3].HostPath != "/host/etc" {
		t.Error(indented(t, got))
	}
	if _, err := TransformRoot(s, "driver", "/"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a relative root: %v", err)
	}
}

func TestMerge(t *testing.T) {
	spec := func(env string, names ...string) *Spec {
		s := &Spec{Version: "0.5.0", Kind: "v.com/c", Annotations: nil}
		for _, n := range names {
			s.Devices = append(s.Devices, Device{Name: n, ContainerEdits: ContainerEdits{Env: []string{"A=" + env}}})
		}
		return s
	}
	got, err := Merge(spec("1", "a", "b"), spec("1", "b", "c"), spec("2", "0"))
	must(t, err)
	var names []string
	for _, d := range got.Devices {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "0"}) || got.Version != "0.5.0" {
		t.Errorf("%v, version %s", names, got.Version)
	}
	other := func(change func(*Spec)) *Spec {
		s := spec("1", "x")
		s.Version = "0.6.0"
		change(s)
		return s
	}
	base := other(func(s *Spec) { s.Annotations = map[string]string{"k": "1"} })
	for what, s := range map[string]*Spec{
		"kind":       other(func(s *Spec) { s.Kind = "v.com/d" }),
		"device":     spec("2", "x"),
		"edits":      other(func(s *Spec) { s.ContainerEdits.Env = []string{"B=1"} }),
		"annotation": other(func(s *Spec) { s.Annotations = map[string]string{"k": "2"} }),
	} {
		if _, err := Merge(base, s); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Merge(); !errors.Is(err, ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := Merge(base, &Spec{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("an invalid spec: %v", err)
	}
}

// TestClone: every field is copied, and none is shared.
func TestClone(t *testing.T) {
	s := fullSpec()
	c := s.Clone()
	if !reflect.DeepEqual(s, c) {
		t.Errorf("%s became %s", indented(t, s), indented(t, c))
	}
	shared(t, "spec", reflect.ValueOf(s), reflect.ValueOf(c))
}

// shared goes through two values alike and fails where they are one in memory.
func shared(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if !a.IsNil() && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			shared(t, path, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		for i := range a.Len() {
			shared(t, path+"[]", a.Index(i), b.Index(i))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			shared(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}

func TestAnnotations(t *testing.T) {
	one := map[string]string{"other": "x"}
	two, err := Annotate(one, "vendor.gpu", "pod/1", "v.com/c=b", "v.com/c=a")
	must(t, err)
	three, err := Annotate(two, "vendor.gpu", "2", "v.com/d=0")
	must(t, err)
	if len(one) != 1 || len(two) != 2 || two["cdi.k8s.io/vendor.gpu_pod_1"] != "v.com/c=b,v.com/c=a" {
		t.Errorf("%v, %v", one, two)
	}
	keys, devices, err := ParseAnnotations(three)
	must(t, err)
	if !slices.Equal(keys, []string{"cdi.k8s.io/vendor.gpu_2", "cdi.k8s.io/vendor.gpu_pod_1"}) ||
		!slices.Equal(devices, []string{"v.com/d=0", "v.com/c=b", "v.com/c=a"}) {
		t.Errorf("%v, %v", keys, devices)
	}
	if _, err := Annotate(two, "vendor.gpu", "pod_1", "v.com/c=b"); !errors.Is(err, ErrConflict) {
		t.Errorf("a key twice: %v", err)
	}
	for _, c := range [][]string{
		{"", "x", "v.com/c=a"}, {"p", "", "v.com/c=a"}, {"p", "x"}, {"p", "x", "a"}, {"-p", "x", "v.com/c=a"}, {"p", "x-", "v.com/c=a"},
		{"p/q", "x", "v.com/c=a"}, {"p", strings.Repeat("x", 62), "v.com/c=a"}, {"p", "x", "v.com/c=a,v.com/c=b"},
	} {
		if _, err := Annotate(nil, c[0], c[1], c[2:]...); !errors.Is(err, ErrInvalid) {
			t.Errorf("Annotate(%q): %v", c, err)
		}
	}
	for _, value := range []string{"", "a", "v.com/c=a,", ",", "v.com/c=a, v.com/c=b", "v.com/c=a;v.com/c=b"} {
		if _, d, err := ParseAnnotations(map[string]string{"cdi.k8s.io/x": value}); !errors.Is(err, ErrInvalid) || d != nil {
			t.Errorf("ParseAnnotations(%q): %v, %v", value, d, err)
		}
	}
}

// TestConvertWithoutVersion: a spec that a program has made needs none, as for Write.
func TestConvertWithoutVersion(t *testing.T) {
	s := bucketSpec()
	for what, convert := range map[string]func() (*Spec, error){
		"Convert":       func() (*Spec, error) { return Convert(s, "0.3.0") },
		"Merge":         func() (*Spec, error) { return Merge(s, s) },
		"TransformRoot": func() (*Spec, error) { return TransformRoot(s, "/run", "/host/run") },
	} {
		if got, err := convert(); err != nil || got.Version != "0.3.0" || s.Version != "" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTransformRootRefuses: an invalid spec is not mended on the way.
func TestTransformRootRefuses(t *testing.T) {
	s := bucketSpec()
	s.Version = "9.9.9"
	if got, err := TransformRoot(s, "/run", "/host/run"); !errors.Is(err, ErrInvalid) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTransformRootArgs: a hook's first argument is its path, or is not touched.
//
// Req: CDI-106
func TestTransformRootArgs(t *testing.T) {
	s := bucketSpec()
	for _, arg := range []string{"/usr/bin/hook", "hook", "/usr/bin/other"} {
		s.ContainerEdits.Hooks = append(s.ContainerEdits.Hooks, &Hook{HookName: "createContainer", Path: "/usr/bin/hook", Args: []string{arg, "/usr/bin/hook"}})
	}
	got, err := TransformRoot(s, "/usr", "/driver")
	must(t, err)
	for i, want := range []string{"/driver/bin/hook", "hook", "/usr/bin/other"} {
		if h := got.ContainerEdits.Hooks[i]; h.Path != "/driver/bin/hook" || h.Args[0] != want || h.Args[1] != "/usr/bin/hook" {
			t.Errorf("got %+v", h)
		}
	}
	if s.ContainerEdits.Hooks[0].Args[0] != "/usr/bin/hook" {
		t.Error("the original has changed")
	}
}
