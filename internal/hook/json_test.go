package hook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// reading is what the scanner makes of a document: the strings of its members
// by name, with an error for any that is there twice.
func reading(data []byte) (map[string]string, error) {
	s := scanner{data: data}
	texts := map[string]string{}
	err := s.document(func(name string) error {
		if s.space() != '"' {
			return s.skip()
		}
		text := texts[name]
		err := s.text(&text)
		texts[name] = text
		return err
	})
	return texts, err
}

// FuzzJSON: whatever the scanner takes, the standard library takes too and reads
// alike; it takes all but what nests too deep and names that are there twice.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { "a" : "b" } `, `{"a":"\u00e4\ud83d\ude00\ud83dx\n\/\"\\"}`, `{"a":[1,-0,0.5,1e9,-1.5E-3,true,false,null,{"b":[]}]}`,
		`{"a":01}`, `{"a":1.}`, `{"a":.5}`, `{"a":+1}`, `{"a":1e}`, `{"a":-}`, `{"a":"b",}`, `{,}`, `{"a"}`, `{"a":}`, `{"a":"b"}x`,
		`{"a":"b`, `{"a":"\x"}`, `{"a":"\u12"}`, "{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", `[]`, `null`, `"a"`, ``, `{"a":nul}`, `{"a":[1,]}`, `{"a":"b","a":"c"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := reading(data)
		var want map[string]any
		wantErr := json.Unmarshal(data, &want)
		switch {
		case err == nil && wantErr != nil:
			t.Fatalf("%q is taken; the standard library says %v", data, wantErr)
		case err != nil && wantErr == nil && !bytes.Contains([]byte(err.Error()), []byte(errTwice.Error())) && !strings.Contains(err.Error(), "lie in each other"):
			t.Fatalf("%q: %v", data, err)
		case err != nil || !utf8.Valid(data):
			return
		}
		for name, text := range got {
			if other, ok := want[name].(string); ok && other != text {
				t.Errorf("%q: %s is %q, want %q", data, name, text, other)
			}
		}
	})
}

// TestJSON: what is refused that the standard library takes, and the other way
// round.
func TestJSON(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"twice":        `{"bundle":"/a","bundle":"/b"}`,
		"twice inside": `{"root":{"path":"/a"},"root":{"path":"/b"}}`,
		"deep":         `{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
		"a number":     `{"bundle":5}`,
		"no object":    `[]`,
	} {
		s := scanner{data: []byte(text)}
		var to string
		err := s.document(func(member string) error {
			switch member {
			case "bundle", "path":
				return s.text(&to)
			case "root":
				return s.object(func(string) error { return s.text(&to) })
			}
			return s.skip()
		})
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if got, err := reading([]byte("{\"path\":\"/a\xff\"}")); err != nil || got["path"] != "/a\xff" {
		t.Errorf("a path that is no UTF-8: %q, %v", got, err)
	}
}
