package hook

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadState(t *testing.T) {
	t.Parallel()
	s, err := ReadState(strings.NewReader(`{"ociVersion":"1.0.2","id":"c","status":"creating","pid":1,"bundle":"/b","annotations":{"x":"y"}}`))
	if err != nil || s != (State{"1.0.2", "c", "creating", "/b"}) {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		``:                                "stdin is empty",
		`{`:                               "want a string",
		`[]`:                              "want '{'",
		`{}`:                              "no ociVersion",
		`{"bundle":"/a","bundle":"/b"}`:   "bundle: it is there twice",
		`{"ociVersion":"1.0.2"}`:          "no id",
		`{"ociVersion":"1.0.2","id":"c"}`: "no absolute path",
		`{"ociVersion":"1.0.2","id":"c","bundle":"b"}`:                           "no absolute path",
		`{"ociVersion":"1.0.2","id":"c","bundle":"/b","status":"running"}`:       "is running",
		`{"ociVersion":"1.0.2","id":"c","bundle":"/b","status":"stopped"} `:      "is stopped",
		`{"ociVersion":"1.0.2","id":"c","bundle":"/b","status":"creating"} more`: "nothing after",
	} {
		if s, err := ReadState(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", text, s, err, want)
		}
	}
}

// TestOpen: the root is what the bundle's configuration says, wherever the hook
// runs.
func TestOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bundle := t.TempDir()
	s := State{ID: "c", Bundle: bundle}
	config := func(text string) {
		w.check(os.WriteFile(bundle+"/config.json", []byte(text), 0o600))
	}
	config(fmt.Sprintf(`{"root":{"path":%q},"mounts":[{"destination":"/dev","type":"tmpfs"}]}`, w.root))
	r, err := s.Open()
	w.check(err)
	w.check(r.CreateSymlinks([]Link{{"x", "/absolute"}}))
	r.Close()
	w.check(os.Rename(w.root, bundle+"/rootfs"))
	config(`{"root":{"path":"rootfs"}}`)
	r, err = s.Open()
	w.check(err)
	w.check(r.CreateSymlinks([]Link{{"x", "/relative"}}))
	r.Close()
	for _, name := range []string{"/absolute", "/relative"} {
		if _, err := os.Lstat(bundle + "/rootfs" + name); err != nil {
			t.Error(err)
		}
	}
	for _, text := range []string{``, `{}`, `{"root":{"path":""}}`, `{"root":{"path":"/"}}`, `{"root":{"path":"none"}}`, `{"root":{"path":"config.json"}}`} {
		config(text)
		if r, err := s.Open(); err == nil {
			r.Close()
			t.Errorf("%s: opened", text)
		}
	}
	w.check(os.Remove(bundle + "/config.json"))
	w.check(unix.Mkfifo(bundle+"/config.json", 0o600))
	if _, err := s.Open(); err == nil {
		t.Error("a FIFO is taken for a configuration")
	}
}

func FuzzReadState(f *testing.F) {
	f.Add(`{"ociVersion":"1.0.2","id":"c","status":"creating","bundle":"/b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ReadState(strings.NewReader(text)); err == nil && !strings.HasPrefix(s.Bundle, "/") {
			t.Errorf("%+v", s)
		}
	})
}
