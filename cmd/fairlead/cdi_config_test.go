package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fairlead/fairlead/cdi"
)

// someEdits touch every part of a configuration that devices can.
func someEdits() cdi.Ref {
	three := int64(3)
	s := &cdi.Spec{Version: "1.1.0", Kind: "acme.com/gpu", Devices: []cdi.Device{{Name: "0", ContainerEdits: cdi.ContainerEdits{
		Env:            []string{"A=cdi", "PATH=/cdi"},
		DeviceNodes:    []*cdi.DeviceNode{{Path: "/dev/x", Type: "c", Major: 1, Minor: three}},
		Mounts:         []*cdi.Mount{{HostPath: "/a", ContainerPath: "/cdi", Options: []string{"bind"}}},
		Hooks:          []*cdi.Hook{{HookName: "poststop", Path: "/bin/true", Env: []string{"A=1"}}},
		AdditionalGIDs: []uint32{7},
	}}}}
	return cdi.Ref{Spec: s, Device: &s.Devices[0]}
}

// FuzzCDIConfig: whatever the configuration, what comes out is what the library
// made of it, and no key of the text is lost or made.
func FuzzCDIConfig(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"process":null,"mounts":[null],"linux":{}}`, `{"ociVersion":"1","x":{"y":[1e400,-0,"\u0000"]}}`,
		`{"process":{"env":["A=1","A=2"],"user":{"additionalGids":[7]}},"hooks":{"poststop":[{"path":"/x","n":1}]}}`,
		`{"linux":{"devices":[{"path":"/dev/x","k":1}],"resources":{"devices":[{"allow":true,"major":-1}]}}}`,
		`{"mounts":[{"destination":"/cdi","k":1},{"destination":"/b/c"},{"destination":"/b"}]}`,
		`{"Process":{"ENV":["B=1"]}}`, `{"process":{},"PROCESS":{}}`, `[]`, `{"a":1,"a":2}`, "{\n\t\"a\": 1\n}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig("config.json", []byte(text))
		if err != nil {
			return
		}
		if same, err := c.edited(); err != nil || string(same) != text {
			t.Fatalf("without a change it is %q, %v", same, err)
		}
		if cdi.Inject(c.spec, someEdits()) != nil {
			return
		}
		got, err := c.edited()
		if err != nil {
			return // refused, and nothing written
		}
		var want, have oci.Spec
		wanted, _ := json.Marshal(c.spec)
		if err := json.Unmarshal(wanted, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &have); err != nil || !reflect.DeepEqual(normal(t, &want), normal(t, &have)) {
			t.Fatalf("got %s\nwant %s\n%v", got, wanted, err)
		}
		before, _ := parseJSON([]byte(text))
		after, err := parseJSON(got)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range *before.members {
			if i := after.member(m.key); i < 0 || (*after.members)[i].key != m.key && !strings.EqualFold((*after.members)[i].key, m.key) {
				t.Fatalf("%q is lost: %s", m.key, got)
			}
		}
	})
}

// normal is s by what is written of it.
func normal(t *testing.T, s *oci.Spec) *jsonValue {
	t.Helper()
	v, err := encoded(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A configuration as runc makes it stays as it is where nothing is edited, byte
// for byte, and is indented as it was where something is.
func TestCDIConfigKeepsText(t *testing.T) {
	text := "{\n\t\"ociVersion\": \"1.0.2\",\n\t\"process\": {\n\t\t\"cwd\": \"/\",\n\t\t\"new\": 0.10\n\t}\n}"
	c, err := parseConfig("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c.spec.Process.Env = []string{"A=<b>"}
	got, err := c.edited()
	want := "{\n\t\"ociVersion\": \"1.0.2\",\n\t\"process\": {\n\t\t\"cwd\": \"/\",\n\t\t\"new\": 0.10,\n\t\t\"env\": [\n\t\t\t\"A=<b>\"\n\t\t]\n\t}\n}"
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

// A file that cannot be replaced is as it was, and nothing is left beside it.
func TestCDISaveFileFails(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/config.json"
	if err := os.Mkdir(name, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := saveFile(name, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if err := saveFile(dir+"/none/config.json", []byte("x")); err == nil {
		t.Error("a file was written into no directory")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
