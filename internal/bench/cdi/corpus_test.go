package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// specCorpus are the texts that both libraries read: the cases of our own tests,
// a spec with everything in which each value is replaced by each of many others,
// names, and texts with a slip of the pen. It is the same each time.
func specCorpus(t *testing.T) iter.Seq2[string, []byte] {
	t.Helper()
	return func(yield func(string, []byte) bool) {
		for _, part := range []func(*testing.T, func(string, []byte) bool) bool{written, replaced, named, slipped} {
			if !part(t, yield) {
				return
			}
		}
	}
}

// written are the files of our own tests.
func written(t *testing.T, yield func(string, []byte) bool) bool {
	for _, pattern := range []string{"../../../cdi/testdata/*/*.txtar", "../../../conform/cdi/testdata/cases/*.txtar"} {
		archives, err := filepath.Glob(pattern)
		if err != nil || len(archives) == 0 {
			t.Fatalf("no cases in %s: %v", pattern, err)
		}
		for _, archive := range archives {
			for name, text := range archived(t, archive) {
				if ext := filepath.Ext(name); (ext == ".json" || ext == ".yaml") && !yield(filepath.Base(archive)+"/"+name, text) {
					return false
				}
			}
		}
	}
	return true
}

// archived are the files of an archive, each below a line "-- NAME --".
func archived(t *testing.T, path string) iter.Seq2[string, []byte] {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(string, []byte) bool) {
		var name string
		var data []byte
		for line := range strings.Lines(string(text)) {
			next, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
			if next, end := strings.CutSuffix(next, " --"); ok && end {
				if name != "" && !yield(name, data) {
					return
				}
				name, data = next, nil
				continue
			}
			data = append(data, line...)
		}
		if name != "" {
			yield(name, data)
		}
	}
}

// full has everything that a spec of version 1.1.0 can have.
const full = `{
 "cdiVersion": "1.1.0", "kind": "vendor.com/class", "annotations": {"a.b/c": "d"},
 "devices": [{"name": "0", "annotations": {"e": "f"}, "containerEdits": {"env": ["A=b"]}}],
 "containerEdits": {
  "env": ["C=d"],
  "deviceNodes": [{"path": "/dev/a", "hostPath": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "permissions": "rw", "uid": 1, "gid": 2}],
  "netDevices": [{"hostInterfaceName": "eth1", "name": "eth0"}],
  "mounts": [{"hostPath": "/a", "containerPath": "/b", "type": "none", "options": ["bind", "ro"]}],
  "hooks": [{"hookName": "createContainer", "path": "/bin/h", "args": ["h", "x"], "env": ["E=f"], "timeout": 5}],
  "additionalGids": [5, 6],
  "intelRdt": {"closID": "x", "l3CacheSchema": "L3:0=f", "memBwSchema": "MB:0=20", "schemata": ["L2:0=f"], "enableMonitoring": true}
 }
}`

// values stand in the place of others.
var values = []string{
	`null`, `""`, `"x"`, `"/"`, `"/x"`, `"x/y"`, `"a..b/c"`, `"."`, `".."`, `" "`, `"é"`, `"\u0000"`, `"\n"`, `"1"`, `"A=b"`, `"=b"`, `"rwm"`, `"none"`, `"poststop"`,
	`"0.3.0"`, `"0.5.0"`, `"0.6.0"`, `"0.7.0"`, `"0.8.0"`, `"1.0.0"`, `"1.1.0"`, `"1.2.0"`, `"v0.6.0"`, `"0.5.4"`,
	`0`, `1`, `-1`, `-0`, `1.0`, `1.5`, `1e2`, `4294967295`, `4294967296`, `9223372036854775807`, `9223372036854775808`, `0x10`, `010`,
	`true`, `false`, `[]`, `{}`, `[null]`, `[""]`, `[1]`, `[{}]`, `["x"]`, `{"a": 1}`, `{"a": null}`, `{"a": "b", "a": "c"}`, `{"name": "x"}`, `{"path": "/dev/x"}`,
}

// replaced are the spec full with each of its values replaced by, or beside, each
// of the others, as JSON and as YAML.
func replaced(t *testing.T, yield func(string, []byte) bool) bool {
	t.Helper()
	marks := spans(t, full)
	for _, at := range marks {
		for _, v := range values {
			text := full[:at.begin] + v + full[at.end:]
			if at.key != "" { // an unknown field, and the same again
				for name, more := range map[string]string{"unknown": `"unknown": `, "again": at.key + ": "} {
					if v == `null` && !yield(fmt.Sprintf("%s-at-%d.json", name, at.begin), []byte(full[:at.end]+", "+more+full[at.begin:at.end]+full[at.end:])) {
						return false
					}
				}
			}
			for _, ext := range []string{"json", "yaml"} {
				if !yield(fmt.Sprintf("replaced-at-%d.%s", at.begin, ext), []byte(text)) {
					return false
				}
			}
		}
	}
	return true
}

// span is where a value stands, and its key if it has one.
type span struct {
	begin, end int
	key        string
}

// spans are the places of all values in a JSON text.
func spans(t *testing.T, text string) (list []span) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	var value func(key string)
	value = func(key string) {
		begin := int(d.InputOffset())
		begin += len(text[begin:]) - len(strings.TrimLeft(text[begin:], " \n,:"))
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if delim, ok := token.(json.Delim); ok {
			for d.More() {
				inner := ""
				if delim == '{' {
					name, err := d.Token()
					if err != nil {
						t.Fatal(err)
					}
					inner = fmt.Sprintf("%q", name)
				}
				value(inner)
			}
			if _, err := d.Token(); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, span{begin, int(d.InputOffset()), key})
	}
	value("")
	return list
}

// named are kinds and device names made of few characters.
func named(t *testing.T, yield func(string, []byte) bool) bool {
	t.Helper()
	pieces := []string{"", "a", "Z", "0", "-", "_", ".", "+", "/", "é", " ", ":", "=", strings.Repeat("a", 62), strings.Repeat("b.", 100)}
	for _, x := range pieces {
		for _, y := range pieces {
			for _, z := range pieces[:10] {
				name := x + y + z
				for _, s := range []string{
					fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": %q, "devices": [{"name": "d", "containerEdits": {"env": ["A=b"]}}]}`, name+"/class"),
					fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": %q, "devices": [{"name": "d", "containerEdits": {"env": ["A=b"]}}]}`, "vendor.com/"+name),
					fmt.Sprintf(`{"cdiVersion": "0.6.0", "kind": "vendor.com/class", "devices": [{"name": %q, "containerEdits": {"env": ["A=b"]}}]}`, name),
				} {
					if !yield("name.json", []byte(s)) {
						return false
					}
				}
			}
		}
	}
	return true
}

// slipped are texts in which a few characters are lost, doubled or others.
func slipped(t *testing.T, yield func(string, []byte) bool) bool {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	const others = "{}[]\",:\\/ \t\n0-+.eaN#&*!|>'%@`\x00\x7f"
	var minimal bytes.Buffer
	if err := json.Compact(&minimal, []byte(full)); err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		text := slices.Clone(minimal.Bytes())
		for range 1 + random.IntN(2) {
			at := random.IntN(len(text))
			switch random.IntN(3) {
			case 0:
				text = slices.Delete(text, at, at+1)
			case 1:
				text = slices.Insert(text, at, text[at])
			default:
				text[at] = others[random.IntN(len(others))]
			}
		}
		if !yield(fmt.Sprintf("slip-%d.json", i), text) {
			return false
		}
	}
	return true
}

// sorted are the values of a map by key.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}
