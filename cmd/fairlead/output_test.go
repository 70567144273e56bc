package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// YAML says the same as JSON, whatever the strings look like to YAML.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	hard := []string{
		"", "yes", "no", "on", "null", "~", "true", "1", "1e3", "0x10", "0o7", "010", "1_000", ".5", ".inf", "12:30",
		"2026-01-02", "2026-01-02T03:04:05Z", " lead", "trail ", "a: b", "a #b", "- x", "? x", "* x", "&x", "!x", "%x",
		"@x", "`x`", "[x]", "{x}", "|", ">", "'", `"`, `\`, "two\nlines", "end\n", "tab\there", "ünï", "\u2028", "--- x", "...", "=", "<<", ",", "x:",
	}
	value := map[string]any{"list": hard, "map": map[string]string{}, "none": []string{}, "number": 7, "yes": true, "nothing": nil}
	for _, s := range hard {
		value["map"].(map[string]string)["k"+s] = s
	}
	var got, want any
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{out: &out}
	if err := a.value("yaml", value); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %s\nwant %s\nas %s", err, again, text, out.String())
	}
}

func TestTable(t *testing.T) {
	var out, talk bytes.Buffer
	a := &app{out: &out, err: &talk}
	l := listing{columns: []string{"A", "B"}, wide: []string{"C"}, rows: []row{{"x/1", []string{"one", "2"}, []string{"3"}}}, empty: "none"}
	for format, want := range map[string]string{"table": "A    B\none  2\n", "wide": "A    B  C\none  2  3\n", "name": "x/1\n", "json": "null\n"} {
		out.Reset()
		if err := a.list(output{format: format}, l); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", format, out.String(), err)
		}
	}
	out.Reset()
	l.rows = nil
	if err := a.list(output{format: "table"}, l); err != nil || out.Len() > 0 || talk.String() != "none\n" {
		t.Errorf("empty: %q, %q, %v", out.String(), talk.String(), err)
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m",
		2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d", 7 * 24 * time.Hour: "7d",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestUnitWord(t *testing.T) {
	for word, want := range map[string]string{
		"plain": "plain", "": `""`, "a b": `"a b"`, `a"b`: `"a\"b"`, `a\b`: `"a\\b"`, "50%": "50%%", "$HOME": "$$HOME", "a;b": `"a;b"`,
	} {
		if got := unitWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestRuntimeVersions(t *testing.T) {
	for text, want := range map[string][2]int{
		"podman version 4.3.1\n": {4, 3}, "Docker version 28.2.2, build e6534b4\n": {28, 2},
		"ctr github.com/containerd/containerd 1.6.20~ds1\n": {1, 6}, "nerdctl version 2.1.0": {2, 1},
	} {
		if got, ok := parseVersion(text); !ok || got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, ok := parseVersion("unknown"); ok {
		t.Error("a version is found where there is none")
	}
}

func TestPlaces(t *testing.T) {
	env := map[string]string{"HOME": "/home/me", "XDG_RUNTIME_DIR": "/run/user/7"}
	getenv := func(key string) string { return env[key] }
	if got, want := findPlaces(7, getenv), (places{State: "/home/me/.local/state/fairlead", Run: "/run/user/7/fairlead", Socket: "/run/user/7/fairlead/fairlead.sock"}); got != want {
		t.Errorf("a user: %+v", got)
	}
	if got, want := findPlaces(0, getenv), (places{"/var/lib/fairlead", "/run/fairlead", "/run/fairlead/fairlead.sock", "/var/run/cdi"}); got != want {
		t.Errorf("root: %+v", got)
	}
	env["XDG_RUNTIME_DIR"] = ""
	if got := findPlaces(1<<30, getenv); !strings.HasSuffix(got.Run, "/fairlead-1073741824") {
		t.Errorf("a user without a runtime directory: %+v", got)
	}
	env[envRun], env[envState], env[envCDI] = "/r", "/s", "/c"
	if got, want := findPlaces(7, getenv), (places{"/s", "/r", "/r/fairlead.sock", "/c"}); got != want {
		t.Errorf("environment: %+v", got)
	}
	env[envSocket] = "/x.sock"
	if got := findPlaces(7, getenv).Socket; got != "/x.sock" {
		t.Errorf("socket: %s", got)
	}
}

func TestRoff(t *testing.T) {
	if got, want := roff(".x\n'y\na-b \\"), "\\&.x\n\\&'y\na\\-b \\e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
