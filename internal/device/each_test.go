package device

import (
	"reflect"
	"testing"
)

// One look at the host for many matches finds what a look for each does.
func TestFindEach(t *testing.T) {
	matches := []Match{{Kind: Char}, {}, {Path: "/dev/*"}, {Kind: Char, Select: "null"}, {Kind: KVM}, {}}
	h := Host{} // this one, whatever it has
	each, err := h.FindEach(t.Context(), matches...)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range matches {
		alone, err := h.Find(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if len(alone) != len(each[i]) || len(alone) > 0 && !reflect.DeepEqual(alone, each[i]) {
			t.Errorf("%q: %v, and alone %v", m, each[i], alone)
		}
	}
	if len(each[1]) == 0 || len(each[2]) == 0 {
		t.Error("this host has no devices at all")
	}
	if _, err := h.FindEach(t.Context(), Match{}, Match{Kind: "nonsense"}); err == nil {
		t.Error("a match that cannot be read is no error")
	}
}

func TestSpecOfOne(t *testing.T) {
	node := func(path string) Node { return Node{Path: path, HostPath: path, Type: "c"} }
	devices := []Device{
		{Kind: KFD, Name: "a", Nodes: []Node{node("/dev/kfd"), node("/dev/dri/renderD128")}},
		{Kind: KFD, Name: "b", Nodes: []Node{node("/dev/kfd"), node("/dev/dri/renderD129")}},
	}
	s := Host{}.SpecOfOne("fairlead.dev/device", "gpus", devices)
	if len(s.Devices) != 1 || s.Devices[0].Name != "gpus" || s.Version != "0.3.0" {
		t.Fatalf("%+v", s)
	}
	var paths []string
	for _, n := range s.Devices[0].ContainerEdits.DeviceNodes {
		paths = append(paths, n.Path)
	}
	if want := []string{"/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"}; !reflect.DeepEqual(paths, want) {
		t.Errorf("nodes %v, want %v", paths, want)
	}
}
