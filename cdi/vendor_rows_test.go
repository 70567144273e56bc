package cdi

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWriteMandatory: what a vendor writes with this library has the mandatory
// fields, or is not written.
//
// Req: CDI-025, CDI-026, CDI-038, CDI-040, CDI-047, CDI-048, CDI-049, CDI-062, CDI-073, CDI-074, CDI-078, CDI-082
func TestWriteMandatory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, Write(dir, "whole.json", &Spec{Kind: "vendor.com/class", Devices: []Device{{Name: "d"}}}))
	text, err := os.ReadFile(filepath.Join(dir, "whole.json"))
	must(t, err)
	var whole struct {
		Version string `json:"cdiVersion"`
		Kind    string
		Devices []struct{ Name string }
	}
	must(t, json.Unmarshal(text, &whole))
	if whole.Version != "0.3.0" || whole.Kind != "vendor.com/class" || len(whole.Devices) != 1 || whole.Devices[0].Name != "d" {
		t.Errorf("wrote %s", text)
	}
	for lacks, change := range map[string]func(*Spec, *ContainerEdits){
		"kind":        func(s *Spec, _ *ContainerEdits) { s.Kind = "" },
		"devices":     func(s *Spec, _ *ContainerEdits) { s.Devices = nil },
		"name":        func(s *Spec, _ *ContainerEdits) { s.Devices[0].Name = "" },
		"node path":   func(_ *Spec, e *ContainerEdits) { e.DeviceNodes = []*DeviceNode{{HostPath: "/dev/null"}} },
		"source":      func(_ *Spec, e *ContainerEdits) { e.Mounts = []*Mount{{ContainerPath: "/x"}} },
		"destination": func(_ *Spec, e *ContainerEdits) { e.Mounts = []*Mount{{HostPath: "/x"}} },
		"hook name":   func(_ *Spec, e *ContainerEdits) { e.Hooks = []*Hook{{Path: "/x"}} },
		"hook path":   func(_ *Spec, e *ContainerEdits) { e.Hooks = []*Hook{{HookName: "poststop"}} },
	} {
		s := &Spec{Kind: "vendor.com/class", Devices: []Device{{Name: "d"}}}
		change(s, &s.ContainerEdits)
		if err := Write(dir, "part.json", s); !errors.Is(err, ErrInvalid) {
			t.Errorf("without %s: %v", lacks, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}
