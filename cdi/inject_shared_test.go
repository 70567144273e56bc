package cdi

import (
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// scramble changes all that can be reached from a value: what lists hold up to
// their capacity, and what pointers lead to.
func scramble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			scramble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scramble(v.Field(i))
		}
	case reflect.Slice:
		all := v.Slice3(0, v.Cap(), v.Cap())
		for i := range all.Len() {
			scramble(all.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		v.SetString("scrambled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 77)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 77)
	}
}

// injected is an index with a spec that has everything in it, and its devices.
func injected(t *testing.T) (*Index, []string) {
	t.Helper()
	s := fullSpec()
	for i := range s.Devices {
		for _, n := range s.Devices[i].ContainerEdits.DeviceNodes {
			n.HostPath = "/dev/null"
		}
	}
	dir := t.TempDir()
	must(t, Write(dir, "full.json", s, NoSync))
	x := NewIndex([]string{dir})
	many := &Spec{Kind: "many.com/class", ContainerEdits: ContainerEdits{Env: []string{"ALL=1"}}}
	for i := range 40 { // more than are searched one by one
		many.Devices = append(many.Devices, Device{Name: fmt.Sprint(i), ContainerEdits: ContainerEdits{
			Env:         []string{"SAME=1", fmt.Sprint("E", i, "=1")},
			Mounts:      []*Mount{{HostPath: "/h", ContainerPath: filepath.Join("/c", fmt.Sprint(i%30))}},
			DeviceNodes: []*DeviceNode{{Path: fmt.Sprint("/dev/n", i%30), Type: "c", Major: 1, Minor: int64(i)}},
		}})
	}
	must(t, Write(dir, "many.json", many, NoSync))
	devices := x.Snapshot().Devices()
	if len(devices) < 42 {
		t.Fatalf("devices %v", devices)
	}
	return x, devices
}

// TestInjectLeavesNoWayBack: whatever a runtime does to a configuration, the next
// container gets what it should, and so does one that was there before.
func TestInjectLeavesNoWayBack(t *testing.T) {
	x, devices := injected(t)
	inject := func() *oci.Spec {
		c := &oci.Spec{Process: &oci.Process{User: oci.User{UID: 5}}}
		must(t, x.Inject(c, devices...))
		return c
	}
	first := inject()
	want := indented(t, first)
	for range 3 {
		c := inject()
		if got := indented(t, c); got != want {
			t.Fatalf("got:\n%s\nwant:\n%s", got, want)
		}
		scramble(reflect.ValueOf(c))
		if got := indented(t, c); got == want {
			t.Fatal("nothing was scrambled")
		}
	}
	if got := indented(t, first); got != want {
		t.Errorf("the first configuration is now:\n%s", got)
	}
}

// TestInjectLeavesTheCaller: what a configuration shared memory with stays as it
// was, on success and on error.
func TestInjectLeavesTheCaller(t *testing.T) {
	x, devices := injected(t)
	container := oci.Spec{Linux: &oci.Linux{IntelRdt: &oci.LinuxIntelRdt{ClosID: "other"}}}
	want := indented(t, &container)
	if err := x.Inject(&container, devices...); err == nil {
		t.Error("two intelRdt were no conflict")
	}
	if got := indented(t, &container); got != want {
		t.Errorf("a failed injection left its mark: %s", got)
	}

	full := oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{Resources: &oci.LinuxResources{}}, Hooks: &oci.Hooks{}}
	must(t, x.Inject(&full, devices...))
	other := full
	want = indented(t, &full)
	must(t, x.Inject(&other, devices[:30]...))
	if indented(t, &other) == want {
		t.Error("nothing was injected again")
	}
	if got := indented(t, &full); got != want {
		t.Errorf("what shares memory with the configuration is now %s", got)
	}
}

// TestInjectAtOnceFromIndex: injections at once share nothing that one of them
// changes, nor does what they make.
func TestInjectAtOnceFromIndex(t *testing.T) {
	x, devices := injected(t)
	c := &oci.Spec{}
	must(t, x.Inject(c, devices...))
	want := indented(t, c)
	var users sync.WaitGroup
	for user := range 8 {
		users.Go(func() {
			for i := range 20 {
				own := &oci.Spec{}
				if err := x.Inject(own, devices...); err != nil {
					t.Error(err)
					return
				}
				if i%5 == user%5 && indented(t, own) != want {
					t.Error("another configuration than alone")
					return
				}
				if err := x.Inject(&oci.Spec{}, "unknown.com/class=1"); err == nil {
					t.Error("an unknown device was injected")
				}
				scramble(reflect.ValueOf(own))
			}
		})
	}
	users.Wait()
}
