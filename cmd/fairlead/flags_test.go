package main

import (
	"testing"
	"time"
)

func TestParseSpan(t *testing.T) {
	good := map[string]time.Duration{
		"0": 0, "0s": 0, "10m": 10 * time.Minute, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour,
		"1d12h": 36 * time.Hour, "0d": 0, "1.5h": 90 * time.Minute, "65535d": 65535 * 24 * time.Hour,
	}
	for text, want := range good {
		if d, err := parseSpan(text); err != nil || d != want {
			t.Errorf("%q: %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "5", "d", "-1h", "-1d", "1d-1h", "+1d", "1.5d", "1h1d", "65536d", "1d2d", "65535d2500000h", "soon", "1 h"} {
		if d, err := parseSpan(text); err == nil {
			t.Errorf("%q is accepted as %v", text, d)
		}
	}
}

// FuzzParseSpan: whatever is accepted is not negative, and means the same when
// it is written as Go writes it.
func FuzzParseSpan(f *testing.F) {
	for _, seed := range []string{"10m", "7d", "1d12h", "-1d", "65535d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseSpan(text)
		if err != nil {
			return
		}
		if again, err := parseSpan(d.String()); d < 0 || err != nil || again != d {
			t.Errorf("%q is %v, and that is %v, %v", text, d, again, err)
		}
	})
}

func TestExpiry(t *testing.T) {
	var e expiry
	if err := e.Set("2030-01-31T12:00:00+01:00"); err != nil || e.relative || !e.at.Equal(time.Date(2030, 1, 31, 11, 0, 0, 0, time.UTC)) {
		t.Errorf("a time: %+v, %v", e, err)
	}
	if err := e.Set("7d"); err != nil || !e.relative || e.in != 7*24*time.Hour || !e.at.IsZero() {
		t.Errorf("a span: %+v, %v", e, err)
	}
	for _, text := range []string{"", "0s", "tomorrow", "2030-01-31", "-1h"} {
		if e.Set(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestPairs(t *testing.T) {
	p := pairs{}
	for _, s := range []string{"a=1", "b=x=y,z", "c=", "a=1"} {
		if err := p.Set(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	if p["b"] != "x=y,z" || p["c"] != "" || len(p) != 3 {
		t.Errorf("got %v", p)
	}
	for _, s := range []string{"", "a", "=1", "a=2"} {
		if p.Set(s) == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// FuzzParseRef: what is accepted can be a path and a URL, and reads back.
func FuzzParseRef(f *testing.F) {
	for _, seed := range []string{"photos", "photos.viewer", "bucket/photos", "../x", "a.b.c", "photos."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRef(text)
		if err != nil {
			return
		}
		if again, err := parseRef(r.String()); err != nil || again != r {
			t.Errorf("%q is %v, and that is %v, %v", text, r, again, err)
		}
		for _, name := range []string{r.claim, r.access} {
			for _, c := range name {
				if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
					t.Errorf("%q has a name with %q", text, c)
				}
			}
		}
	})
}
