package cdi

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write the golden files anew")

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

func ptr[T any](v T) *T { return &v }

// bucketSpec is what the keeper writes for a claim.
func bucketSpec() *Spec {
	return &Spec{
		Kind: "fairlead.dev/bucket",
		Devices: []Device{{Name: "photos", ContainerEdits: ContainerEdits{
			Env: []string{"BUCKET_NAME=bucket-1", "AWS_CONFIG_FILE=/run/fairlead/bucket/photos/config"},
			Mounts: []*Mount{{
				HostPath: "/run/fairlead/bucket/photos", ContainerPath: "/run/fairlead/bucket/photos",
				Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"},
			}},
		}}},
	}
}

// fullSpec uses every field there is.
func fullSpec() *Spec {
	return &Spec{
		Kind: "vendor.com/cl.ass", Annotations: map[string]string{"b": "<&>", "a": "1"},
		Devices: []Device{
			{Name: "0", Annotations: map[string]string{"x": "y"}},
			{Name: "one", ContainerEdits: ContainerEdits{
				DeviceNodes: []*DeviceNode{{
					Path: "/dev/x", HostPath: "/dev/y", Type: "c", Major: 1, Minor: 3, FileMode: ptr(uint32(0o660)),
					Permissions: "rw", UID: ptr(uint32(0)), GID: ptr(uint32(44)),
				}},
			}},
		},
		ContainerEdits: ContainerEdits{
			Env:        []string{"A=b=c", "B="},
			NetDevices: []*NetDevice{{HostInterfaceName: "eth1", Name: "eth0"}},
			Mounts:     []*Mount{{HostPath: "tmpfs", ContainerPath: "/x", Type: "tmpfs", Options: []string{"size=1m"}}},
			Hooks: []*Hook{{HookName: "createContainer", Path: "/usr/bin/hook", Args: []string{"hook", "chmod"},
				Env: []string{"PATH=/bin"}, Timeout: ptr(5)}},
			AdditionalGIDs: []uint32{0, 44},
			IntelRdt:       &IntelRdt{ClosID: "x", L3CacheSchema: "L3:0=f", MemBwSchema: "MB:0=50", Schemata: []string{"L3:0=f"}, EnableMonitoring: true},
		},
	}
}

// Req: CDI-020, CDI-024
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "cdi")
	for name, s := range map[string]*Spec{"bucket.json": bucketSpec(), "full.json": fullSpec()} {
		before := fmt.Sprintf("%+v", s)
		for range 3 { // stable, and over an older file
			must(t, Write(dir, name, s, NoSync))
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		must(t, err)
		golden(t, "write-"+name, got)
		st, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if st.Mode().Perm() != 0o644 {
			t.Errorf("mode %v", st.Mode())
		}
		if fmt.Sprintf("%+v", s) != before {
			t.Error("Write changed the spec")
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("directory holds %v", entries)
	}
	must(t, Remove(dir, "full.json"))
	if err := Remove(dir, "full.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("second Remove: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "x", "x.yaml", ".json", ".x.json", "../x.json", "a/b.json", "x.json\x00.json"} {
		if err := Write(dir, name, bucketSpec()); err == nil {
			t.Errorf("wrote %q", name)
		}
		if err := Remove(dir, name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Remove %q: %v", name, err)
		}
	}
	bad := bucketSpec()
	bad.Devices = nil
	if err := Write(dir, "x.json", bad); !errors.Is(err, ErrInvalid) {
		t.Errorf("wrote a spec without devices: %v", err)
	}
	low := fullSpec()
	low.Version = "0.7.0"
	if err := Write(dir, "x.json", low); !errors.Is(err, ErrInvalid) {
		t.Errorf("wrote 1.1.0 as 0.7.0: %v", err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "dir.json"), 0o755))
	if err := Write(dir, "dir.json", bucketSpec()); err == nil {
		t.Error("wrote over a directory")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("leftovers: %v", entries)
	}
}

// TestWriteUmask: what others are to read they can read, whatever the umask.
func TestWriteUmask(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "new", "cdi")
	old := unix.Umask(0o077)
	err := Write(dir, "x.json", bucketSpec())
	unix.Umask(old)
	must(t, err)
	for path, want := range map[string]fs.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, filepath.Join(dir, "x.json"): 0o644} {
		st, err := os.Stat(path)
		must(t, err)
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
	}
	must(t, Remove(dir, "x.json"))
	must(t, os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	if err := Write(filepath.Join(base, "file"), "x.json", bucketSpec()); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("into a file: %v", err)
	}
}

// TestWriteLink: a link is replaced, and what it leads to stays.
func TestWriteLink(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, []byte("mine"), 0o600))
	must(t, os.Symlink(target, filepath.Join(dir, "x.json")))
	must(t, Write(dir, "x.json", bucketSpec(), NoSync))
	if st, err := os.Lstat(filepath.Join(dir, "x.json")); err != nil || !st.Mode().IsRegular() {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if text, err := os.ReadFile(target); string(text) != "mine" {
		t.Errorf("the target holds %q, %v", text, err)
	}
}

// TestWriteLongName: a name as long as the file system takes can be written.
func TestWriteLongName(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("n", 250) + ".json"
	must(t, Write(dir, name, bucketSpec(), NoSync))
	must(t, Remove(dir, name, NoSync))
}

// TestMarshalUTF8: JSON would hold something else.
func TestMarshalUTF8(t *testing.T) {
	for value, ok := range map[string]bool{"\ufffd": true, `\ufffd`: true, `\\ufffd`: true, "a\xff": false, "\\\xff": false} {
		s := bucketSpec()
		s.Devices[0].ContainerEdits.Mounts[0].HostPath = "/x" + value
		text, err := Marshal(s)
		if ok != (err == nil) || !ok && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "hostPath")) {
			t.Errorf("%q: %v", value, err)
		}
		if back, err := Parse("x.json", text); ok && (err != nil || back.Devices[0].ContainerEdits.Mounts[0].HostPath != "/x"+value) {
			t.Errorf("%q came back: %v", value, err)
		}
	}
}

// TestWriteAtOnce: a reader beside several writers never finds half a file.
func TestWriteAtOnce(t *testing.T) {
	dir := t.TempDir()
	must(t, Write(dir, "x.json", bucketSpec()))
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 50 {
				if err := Write(dir, "x.json", fullSpec(), NoSync); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		data, err := os.ReadFile(filepath.Join(dir, "x.json"))
		if err != nil || !bytes.HasSuffix(data, []byte("\n}\n")) {
			t.Fatalf("read %d bytes, %v", len(data), err)
		}
	}
}

// Req: CDI-004, CDI-005, CDI-006, CDI-007, CDI-008, CDI-009, CDI-010, CDI-011, CDI-012, CDI-015, CDI-016
func TestMinimumVersion(t *testing.T) {
	for what, c := range map[string]struct {
		change func(s *Spec, e *ContainerEdits)
		want   string
	}{
		"nothing":               {func(*Spec, *ContainerEdits) {}, "0.3.0"},
		"mount type":            {func(_ *Spec, e *ContainerEdits) { e.Mounts = []*Mount{{Type: "bind"}} }, "0.4.0"},
		"hostPath":              {func(_ *Spec, e *ContainerEdits) { e.DeviceNodes = []*DeviceNode{{HostPath: "/x"}} }, "0.5.0"},
		"digit first":           {func(s *Spec, _ *ContainerEdits) { s.Devices[0].Name = "0" }, "0.5.0"},
		"annotations":           {func(s *Spec, _ *ContainerEdits) { s.Annotations = map[string]string{"a": ""} }, "0.6.0"},
		"annotations of device": {func(s *Spec, _ *ContainerEdits) { s.Devices[0].Annotations = map[string]string{"a": ""} }, "0.6.0"},
		"empty annotations":     {func(s *Spec, _ *ContainerEdits) { s.Annotations = map[string]string{} }, "0.3.0"},
		"dot in class":          {func(s *Spec, _ *ContainerEdits) { s.Kind = "vendor.com/a.b" }, "0.6.0"},
		"intelRdt":              {func(_ *Spec, e *ContainerEdits) { e.IntelRdt = &IntelRdt{EnableCMT: true} }, "0.7.0"},
		"additionalGids":        {func(_ *Spec, e *ContainerEdits) { e.AdditionalGIDs = []uint32{0} }, "0.7.0"},
		"netDevices":            {func(_ *Spec, e *ContainerEdits) { e.NetDevices = []*NetDevice{{}} }, "1.1.0"},
		"schemata":              {func(_ *Spec, e *ContainerEdits) { e.IntelRdt = &IntelRdt{Schemata: []string{""}} }, "1.1.0"},
		"monitoring":            {func(_ *Spec, e *ContainerEdits) { e.IntelRdt = &IntelRdt{EnableMonitoring: true} }, "1.1.0"},
		"both": {func(s *Spec, e *ContainerEdits) {
			s.Annotations = map[string]string{"a": ""}
			e.Mounts = []*Mount{{Type: "bind"}}
		}, "0.6.0"},
	} {
		for _, atTop := range []bool{true, false} {
			s := bucketSpec()
			e := &s.Devices[0].ContainerEdits
			if atTop {
				e = &s.ContainerEdits
			}
			c.change(s, e)
			if got := MinimumVersion(s); got != c.want {
				t.Errorf("%s (at the top: %v) needs %s, want %s", what, atTop, got, c.want)
			}
		}
	}
}

// Req: CDI-021
func TestParseDevice(t *testing.T) {
	for device, want := range map[string][3]string{
		"vendor.com/class=name":                            {"vendor.com", "class", "name"},
		"3com.com/a.b=0":                                   {"3com.com", "a.b", "0"},
		"fairlead.dev/bucket=photos.reader":                {"fairlead.dev", "bucket", "photos.reader"},
		"foo.bar.baz/foo-bar123.B_az=x":                    {"foo.bar.baz", "foo-bar123.B_az", "x"},
		"v/c=" + strings.Repeat("n", 63):                   {"v", "c", strings.Repeat("n", 63)},
		strings.Repeat("v.", 126) + "v/" + "c" + "=" + "n": {strings.Repeat("v.", 126) + "v", "c", "n"},
	} {
		vendor, class, name, err := ParseDevice(device)
		if got := [3]string{vendor, class, name}; err != nil || got != want {
			t.Errorf("ParseDevice(%q) = %q, %v", device, got, err)
		}
		if QualifiedName(vendor+"/"+class, name) != device {
			t.Errorf("%q does not come back", device)
		}
	}
	for _, device := range []string{
		"", "=", "/=", "vendor.com/class", "vendor.com=name", "/class=name", "vendor.com/=name", "vendor.com/class=",
		"a..b/c=d", ".a/c=d", "a./c=d", "-a/c=d", "a-/c=d", "a_b/c=d", "a/b/c=d", "a/b=c=d", "a/b=c:d", "a/-b=c", "a/b=c-", "a/b=ü", "a/b=c d",
		"v/c=" + strings.Repeat("n", 64), strings.Repeat("v", 64) + "/c=n", strings.Repeat("v.", 126) + "vv/c=n",
	} {
		if v, c, n, err := ParseDevice(device); !errors.Is(err, ErrInvalid) || v+c+n != "" {
			t.Errorf("ParseDevice(%q) = %q, %q, %q, %v", device, v, c, n, err)
		}
	}
}

func TestFileName(t *testing.T) {
	for want, in := range map[string][2]string{
		"vendor.com-class.json":      {"vendor.com/class", ""},
		"vendor.com-class_id.json":   {"vendor.com/class", "id"},
		"vendor.com-class_a_b_.json": {"vendor.com/class", "a/b:"},
	} {
		if got := FileName(in[0], in[1]); got != want {
			t.Errorf("FileName(%q) = %q, want %q", in, got, want)
		}
		must(t, checkFileName(want))
	}
}

// FuzzParseDevice: what is taken apart can be put together, and is what a spec
// can hold.
func FuzzParseDevice(f *testing.F) {
	for _, s := range []string{"vendor.com/class=name", "a/b=0", "a..b/c=d", "=", "a/b/c=d", "a/b=c=d", "\x00/\xff=="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, device string) {
		vendor, class, name, err := ParseDevice(device)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v", device, err)
			}
			return
		}
		if QualifiedName(vendor+"/"+class, name) != device {
			t.Errorf("%q came apart as %q, %q, %q", device, vendor, class, name)
		}
		if err := Validate(&Spec{Version: "0.6.0", Kind: vendor + "/" + class, Devices: []Device{{Name: name}}}); err != nil {
			t.Errorf("%q: %v", device, err)
		}
	})
}

// Whoever finds a temporary file after a crash can tell whose it is.
func TestTemporaryName(t *testing.T) {
	if got := temporary("fairlead.dev-device_modem.json"); got != ".fairlead.dev-device_modem.json.tmp-*" {
		t.Error(got)
	}
	if got := temporary(strings.Repeat("x", 250) + ".json"); len(got) > 230 {
		t.Errorf("%d bytes", len(got))
	}
}
