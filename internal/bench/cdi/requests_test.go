package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// requests are the injections that both libraries are asked for: the cases of our
// own tests, and edits of all kinds put together by lot. They are the same each
// time.
func requests(t *testing.T) iter.Seq[*request] {
	t.Helper()
	return func(yield func(*request) bool) {
		for r := range asked(t) {
			if !yield(r) {
				return
			}
		}
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink("/dev/null", link); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		for i := range 2000 {
			if !yield(lot(random, i, link)) {
				return
			}
		}
	}
}

// asked are the cases of the library's own tests. Devices without edits get one,
// for upstream's sake.
func asked(t *testing.T) iter.Seq[*request] {
	return func(yield func(*request) bool) {
		var r *request
		for name, text := range archived(t, "../../../cdi/testdata/inject/inject.txtar") {
			dir, file := path.Split(name)
			if r == nil || r.name != dir {
				if r != nil && !yield(r) {
					return
				}
				r = &request{name: dir, specs: map[string][]byte{}}
			}
			switch file {
			case "devices":
				r.devices = strings.Fields(string(text))
			case "config.json":
				r.config = text
			case "want":
			default:
				r.specs[file] = []byte(strings.ReplaceAll(string(text), `"containerEdits": {}}`, `"containerEdits": {"env": ["X=x"]}}`))
			}
		}
		yield(r)
	}
}

// what a lot draws from: few names each, so that they often meet.
var (
	someEnv    = []any{"A=1", "A=2", "B=1", "PATH=/x", "C="}
	someNodes  = []string{`{"path": "/dev/null"}`, `{"path": "/dev/x", "hostPath": "/dev/zero", "permissions": "r"}`, `{"path": "/dev/x", "type": "c", "major": 5, "minor": 1, "fileMode": 420}`, `{"path": "/dev/x", "hostPath": "LINK"}`, `{"path": "/dev/u", "type": "u", "major": 4, "minor": 2, "fileMode": 384}`, `{"path": "/dev/y", "type": "b", "major": 8, "minor": 0, "uid": 0, "gid": 7}`, `{"path": "/dev/fuse0", "type": "b", "major": 8}`, `{"path": "/dev/absent-node"}`}
	someMounts = []string{`{"hostPath": "/a", "containerPath": "/x"}`, `{"hostPath": "/b", "containerPath": "/x/y/z", "options": ["ro", "bind"]}`, `{"hostPath": "/c", "containerPath": "/data", "options": ["rbind"]}`, `{"hostPath": "tmpfs", "containerPath": "/t", "type": "tmpfs", "options": ["ro"]}`, `{"hostPath": "/d", "containerPath": "/x/", "type": "none", "options": ["ro"]}`, `{"hostPath": "/e", "containerPath": "/e", "type": "bind"}`}
	someHooks  = []string{`{"hookName": "prestart", "path": "/h"}`, `{"hookName": "createContainer", "path": "/h", "args": ["h"], "env": ["A=b"], "timeout": 3}`, `{"hookName": "poststop", "path": "/i"}`}
	someGIDs   = []any{0, 5, 6, 4294967295}
	someRdt    = []string{`{"closID": "x"}`, `{"closID": "y", "schemata": ["L3:0=f"], "enableMonitoring": true}`}
	someNets   = []string{`{"hostInterfaceName": "eth1", "name": "eth5"}`, `{"hostInterfaceName": "eth2", "name": "eth6"}`, `{"hostInterfaceName": "eth1", "name": "eth6"}`}
	configs    = []string{
		`{}`,
		`{"ociVersion": "1.2.0", "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/bin", "A=0"], "cwd": "/"}}`,
		`{"process": {"user": {"uid": 7, "gid": 8, "additionalGids": [5]}, "env": ["PATH=/bin"]}, "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/data", "source": "/old", "options": ["bind"]}], "hooks": {"prestart": [{"path": "/first"}]}}`,
		`{"process": {"env": ["B=0", "B=1"]}, "linux": {"devices": [{"path": "/dev/x", "type": "c", "major": 9, "minor": 9}], "resources": {"devices": [{"allow": false, "access": "rwm"}]}, "netDevices": {"eth9": {"name": "eth6"}}}}`,
		`{"linux": {"namespaces": [{"type": "user"}], "intelRdt": {"closID": "x"}}}`,
	}
)

// lot draws one request.
func lot(random *rand.Rand, i int, link string) *request {
	r := &request{name: fmt.Sprintf("lot %d", i), specs: map[string][]byte{}, config: []byte(configs[random.IntN(len(configs))])}
	for s := range 1 + random.IntN(2) {
		spec := map[string]any{"cdiVersion": "1.1.0", "kind": fmt.Sprintf("vendor%d.com/class", s)}
		if random.IntN(2) == 0 {
			spec["containerEdits"] = edits(random)
		}
		var devices []any
		for d := range 1 + random.IntN(3) {
			name := fmt.Sprintf("d%d", d)
			devices = append(devices, map[string]any{"name": name, "containerEdits": edits(random)})
			if random.IntN(3) > 0 {
				r.devices = append(r.devices, fmt.Sprintf("vendor%d.com/class=%s", s, name))
			}
		}
		spec["devices"] = devices
		r.specs[fmt.Sprintf("%d.json", s)] = []byte(strings.ReplaceAll(text(spec), "LINK", link))
	}
	random.Shuffle(len(r.devices), func(i, j int) { r.devices[i], r.devices[j] = r.devices[j], r.devices[i] })
	return r
}

// edits are never empty.
func edits(random *rand.Rand) map[string]any {
	e := map[string]any{"env": []any{someEnv[random.IntN(len(someEnv))]}}
	for field, choice := range sorted(map[string][]any{
		"env": someEnv, "deviceNodes": raw(someNodes), "mounts": raw(someMounts), "hooks": raw(someHooks),
		"additionalGids": someGIDs, "netDevices": raw(someNets),
	}) {
		if random.IntN(3) > 0 {
			continue
		}
		var list []any
		for range 1 + random.IntN(3) {
			list = append(list, choice[random.IntN(len(choice))])
		}
		if field == "netDevices" {
			list = list[:1] // two may contradict each other, which makes an invalid spec
		}
		e[field] = list
	}
	if random.IntN(12) == 0 {
		e["intelRdt"] = json.RawMessage(someRdt[random.IntN(len(someRdt))])
	}
	return e
}

func raw(texts []string) (list []any) {
	for _, text := range texts {
		list = append(list, json.RawMessage(text))
	}
	return list
}
