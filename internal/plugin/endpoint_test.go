package plugin

import (
	"errors"
	"strings"
	"testing"
)

// Req: COSI-142, COSI-168, COSI-169
func TestParseEndpoint(t *testing.T) {
	long := "/" + strings.Repeat("a", MaxSocketPath-6) + ".sock"
	for endpoint, want := range map[string]string{
		"unix:///run/cosi/cosi.sock": "/run/cosi/cosi.sock",
		"unix:/run/cosi.sock":        "/run/cosi.sock",
		"unix:///a b/ü%20.sock":      "/a b/ü%20.sock",
		"unix://" + long:             long,
		"":                           "",
		"/run/cosi.sock":             "",
		"tcp://127.0.0.1:1":          "",
		"unix://run/cosi.sock":       "",
		"unix:cosi.sock":             "",
		"unix:////run/cosi.sock":     "",
		"unix:///run/cosi":           "",
		"unix:///run/cosi.sock/":     "",
		"unix:///run/\x00.sock":      "",
		"unix:///run/a\nb.sock":      "",
		"UNIX:///run/cosi.sock":      "",
		"unix:///x" + long:           "",
		"unix-abstract:///x.sock":    "",
	} {
		got, err := ParseEndpoint(endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseEndpoint(%q) = %q, %v; want %q", endpoint, got, err, want)
		}
		if err != nil && !errors.Is(err, ErrEndpoint) {
			t.Errorf("ParseEndpoint(%q): %v does not wrap ErrEndpoint", endpoint, err)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"unix:///run/cosi.sock", "unix:/a.sock", "unix://", "", "unix:///\x00.sock"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		path, err := ParseEndpoint(endpoint)
		if err != nil {
			if path != "" {
				t.Fatalf("path %q beside an error", path)
			}
			return
		}
		if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, ".sock") || len(path) > MaxSocketPath {
			t.Fatalf("ParseEndpoint(%q) = %q", endpoint, path)
		}
		if again, err := ParseEndpoint("unix://" + path); err != nil || again != path {
			t.Fatalf("ParseEndpoint of its own result %q = %q, %v", path, again, err)
		}
	})
}
