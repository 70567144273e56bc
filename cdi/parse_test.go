package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestParse runs the cases of testdata/parse: each file, and what is wrong with
// it, nothing if it is right.
//
// Req: CDI-004, CDI-005, CDI-006, CDI-007, CDI-008, CDI-009, CDI-010, CDI-011, CDI-012, CDI-013, CDI-014, CDI-017, CDI-018
// Req: CDI-025, CDI-026, CDI-029, CDI-030, CDI-031, CDI-032, CDI-033, CDI-034, CDI-035, CDI-036, CDI-037, CDI-038, CDI-039
// Req: CDI-040, CDI-041, CDI-042, CDI-043, CDI-044, CDI-045, CDI-046, CDI-047, CDI-048, CDI-049, CDI-050, CDI-051, CDI-052, CDI-053, CDI-055
// Req: CDI-059, CDI-061, CDI-062, CDI-063, CDI-065, CDI-066, CDI-067, CDI-068, CDI-069, CDI-070, CDI-071, CDI-072, CDI-073, CDI-074, CDI-075, CDI-076
// Req: CDI-077, CDI-078, CDI-079, CDI-082, CDI-083, CDI-084, CDI-085, CDI-086, CDI-088, CDI-089, CDI-090, CDI-091, CDI-092, CDI-093, CDI-094
func TestParse(t *testing.T) {
	for _, path := range caseArchives(t, "parse") {
		comment, files := readCases(t, path)
		for i := 0; i+1 < len(files); i += 2 {
			in, want := files[i], &files[i+1]
			t.Run(in.name, func(t *testing.T) {
				_, err := Parse(in.name, in.data)
				var got string
				if err != nil {
					got = err.Error() + "\n"
					if !errors.Is(err, ErrInvalid) {
						t.Errorf("%v does not wrap ErrInvalid", err)
					}
				}
				if *update {
					want.data = []byte(got)
				}
				if got != string(want.data) {
					t.Errorf("got:\n%swant:\n%s", got, want.data)
				}
			})
		}
		if *update {
			writeCases(t, path, comment, files)
		}
	}
}

// TestParseKeepsAll: what is written is read back whole, from JSON and YAML.
func TestParseKeepsAll(t *testing.T) {
	want := fullSpec()
	want.Version = "1.1.0"
	text, err := Marshal(want)
	must(t, err)
	for _, name := range []string{"x.json", "x.yaml"} {
		got, err := Parse(name, text)
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestProblem(t *testing.T) {
	_, err := Parse("/etc/cdi/x.json", []byte("{\n  \"cdiVersion\": \"0.4.0\",\n  \"kind\": \"vendor.com/class\",\n  \"devices\": [{\"name\": \"0\"}]\n}"))
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		t.Fatal(err)
	}
	got := *p
	got.steps = nil
	if want := (Problem{
		File: "/etc/cdi/x.json", Line: 4, Column: 24, Path: "$.devices[0].name", Rule: RuleVersionField,
		Message: "a device name that begins with a digit came with version 0.5.0, but cdiVersion is 0.4.0", Fix: `"cdiVersion": "0.5.0"`,
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if p.Rule.Clause() != "CDI-014" {
		t.Errorf("clause %q", p.Rule.Clause())
	}
}

// TestClauses: a rule's clause is one of the specification's.
func TestClauses(t *testing.T) {
	rows, err := os.ReadFile("../spec/requirements.tsv")
	must(t, err)
	for rule, clause := range clauses {
		if !bytes.Contains(rows, []byte("\n"+clause+"\t")) {
			t.Errorf("rule %s is of clause %q, which does not exist", rule, clause)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, Write(dir, "good.json", bucketSpec()))
	must(t, os.Symlink("good.json", at("link.json")))
	for _, name := range []string{"good.json", "link.json"} {
		if _, err := ReadFile(at(name)); err != nil {
			t.Error(err)
		}
	}
	must(t, unix.Mkfifo(at("fifo.json"), 0o600))
	must(t, os.Mkdir(at("dir.json"), 0o700))
	must(t, os.Symlink("/dev/zero", at("zero.json")))
	must(t, os.Symlink("loop.json", at("loop.json")))
	must(t, os.WriteFile(at("huge.json"), nil, 0o600))
	must(t, os.Truncate(at("huge.json"), maxFile+1))
	for name, want := range map[string]error{
		"fifo.json": ErrNotSpecFile, "dir.json": ErrNotSpecFile, "zero.json": ErrNotSpecFile, "huge.json": ErrNotSpecFile,
		"loop.json": unix.ELOOP, "absent.json": os.ErrNotExist,
	} {
		if _, err := ReadFile(at(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzJSON: what is accepted is what encoding/json reads of it, and comes back
// from being written; what is refused names a place in the text.
func FuzzJSON(f *testing.F) {
	addCases(f, ".json")
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("x.json", text)
		if err != nil {
			checkPlaces(t, err, text)
			return
		}
		var std Spec
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		must(t, dec.Decode(&std))
		if got, want := asJSON(t, s), asJSON(t, &std); got != want {
			t.Errorf("read %s, encoding/json reads %s", got, want)
		}
		comesBack(t, s)
	})
}

// FuzzYAML: as much for YAML, where there is nothing to compare with.
func FuzzYAML(f *testing.F) {
	addCases(f, ".yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("x.yaml", text)
		if err != nil {
			checkPlaces(t, err, text)
			return
		}
		comesBack(t, s)
	})
}

func addCases(f *testing.F, ext string) {
	for _, path := range caseArchives(f, "parse") {
		_, files := readCases(f, path)
		for _, c := range files {
			if filepath.Ext(c.name) == ext {
				f.Add(c.data)
			}
		}
	}
}

func comesBack(t *testing.T, s *Spec) {
	t.Helper()
	text, err := Marshal(s)
	must(t, err)
	again, err := Parse("x.json", text)
	must(t, err)
	if got, want := asJSON(t, again), asJSON(t, s); got != want {
		t.Errorf("%s came back as %s", want, got)
	}
}

func asJSON(t *testing.T, s *Spec) string {
	text, err := json.Marshal(s)
	must(t, err)
	return string(text)
}

func checkPlaces(t *testing.T, err error, text []byte) {
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("%T: %v", err, err)
	}
	for _, p := range problems {
		if lines := bytes.Count(text, []byte("\n")) + 1; p.Line < 1 || p.Line > lines || p.Column < 1 || p.Column > len(text)+1 {
			t.Errorf("%v: no such place in %q", p, text)
		}
	}
}

// largeSpec is the text of a spec as a vendor's tool writes them: about 12 KB
// and 5 devices.
func largeSpec(kind string) []byte {
	s := &Spec{Version: "0.6.0", Kind: kind}
	for _, name := range []string{"0", "1", "2", "3", "all"} {
		var e ContainerEdits
		e.Env = []string{"NVIDIA_VISIBLE_DEVICES=void", "VENDOR_DEVICE=" + name}
		for _, node := range []string{"ctl", name, "uvm", "modeset"} {
			e.DeviceNodes = append(e.DeviceNodes, &DeviceNode{Path: "/dev/vendor" + node, HostPath: "/dev/vendor" + node, Permissions: "rw"})
		}
		for _, lib := range []string{"cuda", "ml", "ptxjitcompiler", "cfg", "opencl", "encode", "fbc"} {
			p := "/usr/lib/x86_64-linux-gnu/libvendor-" + lib + ".so.535.104.05"
			e.Mounts = append(e.Mounts, &Mount{HostPath: p, ContainerPath: p, Options: []string{"ro", "nosuid", "nodev", "bind"}})
		}
		e.Hooks = []*Hook{{HookName: "createContainer", Path: "/usr/bin/vendor-hook", Args: []string{"vendor-hook", "update-ldcache", "--folder", "/usr/lib/x86_64-linux-gnu"}, Env: []string{"A=b"}}}
		s.Devices = append(s.Devices, Device{Name: name, ContainerEdits: e})
	}
	text, err := Marshal(s)
	if err != nil {
		panic(err)
	}
	return text
}

func BenchmarkParse(b *testing.B) {
	text := largeSpec("vendor.com/gpu")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse("x.json", text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParseAgain is how the index reads file after file.
func BenchmarkParseAgain(b *testing.B) {
	text := string(largeSpec("vendor.com/gpu"))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var d decoder
	for b.Loop() {
		d.reset()
		if err := d.parse("x.json", text); err != nil {
			b.Fatal(err)
		}
	}
}

// TestParseIsQuick bounds what hostile texts can cost, far above what they do.
func TestParseIsQuick(t *testing.T) {
	begin := `{"cdiVersion": "1.1.0", "kind": "a/b", "devices": [`
	same := begin + strings.Repeat(`{"name": "x"},`, 20000) + `{"name": "x"}]}`
	var names, nets strings.Builder
	for i := range 200000 {
		fmt.Fprintf(&names, `{"name": "x%d"},`, i)
		fmt.Fprintf(&nets, `,{"hostInterfaceName": "x%d", "name": "y%d"}`, i, i)
	}
	others := begin + names.String() + `{"name": "-"}]}`
	links := begin + `{"name": "-", "containerEdits": {"netDevices": [` + nets.String()[1:] + `]}}]}`
	for _, text := range []string{same, others, links, strings.Repeat("[", 1<<20), strings.Repeat(`{"a":`, 1<<18), `"` + strings.Repeat(`\u0041`, 1<<18)} {
		begin := time.Now()
		if _, err := Parse("x.json", []byte(text)); err == nil {
			t.Error("accepted")
		}
		if d := time.Since(begin); d > 20*time.Second {
			t.Errorf("took %v", d)
		}
	}
}

// TestParseLargeYAML: a YAML file is read into a tree many times its size, so it
// may not be as large as JSON may.
func TestParseLargeYAML(t *testing.T) {
	spec := "{\"cdiVersion\": \"0.3.0\", \"kind\": \"a/b\", \"devices\": [{\"name\": \"x\"}]}\n"
	if _, err := Parse("x.yaml", []byte(spec+strings.Repeat(" ", maxYAML))); err != nil {
		t.Errorf("JSON in a .yaml file: %v", err)
	}
	_, err := Parse("x.yaml", []byte("# a comment\n"+spec+strings.Repeat(" ", maxYAML)))
	if p, ok := errors.AsType[*Problem](err); !ok || p.Rule != RuleSize {
		t.Errorf("YAML: %v", err)
	}
}

// TestProblemsAreBounded: however much is wrong, fifty are told, the first ones.
func TestProblemsAreBounded(t *testing.T) {
	var bad string
	for i := range 45 {
		bad += fmt.Sprintf(`{"name": 1}, {"name": "-%d"},`, i)
	}
	_, err := Parse("x.json", []byte(`{"cdiVersion": "0.3.0", "kind": "a/b", "devices": [`+bad[:len(bad)-1]+`]}`))
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != maxProblems || problems[1].Rule != RuleDeviceName || problems[49].Path != "$.devices[49].name" {
		t.Errorf("%d problems: %v", len(problems), err)
	}
}
