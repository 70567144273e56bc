package claim

import (
	"strings"
	"testing"
	"time"
)

func TestCheckName(t *testing.T) {
	for _, good := range []string{"a", "photos", "a-1", "1a", strings.Repeat("x", 63)} {
		if err := CheckName("a claim", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "../x", "a/b", "Photos", "ü", "a\x00b", "-a", "a-", "a.b", "a b", strings.Repeat("x", 64), strings.Repeat("y", 10<<10), "a\n"} {
		err := CheckName("a claim", bad)
		if CodeOf(err) != CodeInvalid {
			t.Errorf("%.20q: %v, want invalid", bad, err)
			continue
		}
		if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\x00\n") {
			t.Errorf("%.20q: hostile message %q", bad, err)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"a", "../x", "A", "ü", strings.Repeat("z", 70)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckName("a claim", s) == nil {
			uid := NewUID()
			b := BucketName(s, uid)
			if len(b) < 3 || len(b) > 63 || !label.MatchString(b) {
				t.Errorf("claim %q makes the bucket name %q", s, b)
			}
			return
		}
		if h := suggest(s); h != "" && CheckName("a claim", h) != nil {
			t.Errorf("the suggestion %q for %q is no name", h, s)
		}
	})
}

// Req: COSI-118, COSI-033
func TestGeneratedNamesFollowFromTheIntent(t *testing.T) {
	const uid = "3f9a1c2b-7d4e-4b11-9a51-0123456789ab"
	if got := BucketName("photos", uid); got != "photos-3f9a1c2b7d4e" {
		t.Error(got)
	}
	if got := BucketName(strings.Repeat("a", 49)+"-"+strings.Repeat("b", 13), uid); len(got) > 63 || strings.Contains(got, "--") {
		t.Error(got)
	}
	if got := AccountName(uid, 1); got != "ba-"+uid {
		t.Error(got)
	}
	if got := AccountName(uid, 3); got != "ba-"+uid+"-3" {
		t.Error(got)
	}
}

func TestDeviceNames(t *testing.T) {
	for _, c := range [][3]string{{"photos", "default", "photos"}, {"photos", "ro", "photos.ro"}} {
		if got := DeviceName(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %q", c, got)
		}
		if claim, access := SplitDeviceName(c[2]); claim != c[0] || access != c[1] {
			t.Errorf("%v: %q %q", c, claim, access)
		}
	}
}

func TestLongDeviceNames(t *testing.T) {
	long := strings.Repeat("x", 60)
	if err := CheckDeviceName(long, DefaultName); err != nil {
		t.Error(err)
	}
	if err := CheckDeviceName(long, "abc"); CodeOf(err) != CodeInvalid {
		t.Errorf("%v", err)
	}
}

// Req: COSI-081, COSI-082
func TestLimitsHoldBeforeADriverIsAsked(t *testing.T) {
	if err := CheckString("x", strings.Repeat("é", 64)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{strings.Repeat("é", 65), "a\x00", "\xff"} {
		if CheckString("x", bad) == nil {
			t.Errorf("%q passed", bad)
		}
	}
	if err := CheckParameters(map[string]string{"k": strings.Repeat("v", 4095)}); err != nil {
		t.Error(err)
	}
	for _, bad := range []map[string]string{{"k": strings.Repeat("v", 4096)}, {"": "v"}, {"k": "\xff"}} {
		if CheckParameters(bad) == nil {
			t.Errorf("%.40v passed", bad)
		}
	}
}

func TestAccessSpecCheck(t *testing.T) {
	now := time.Now()
	s := AccessSpec{Name: "default", Mode: "ro"}
	if err := s.Check(now); err != nil || s.Mode != ModeReadOnly || s.Authentication != AuthKey {
		t.Errorf("%+v %v", s, err)
	}
	neg := -1
	for _, bad := range []AccessSpec{
		{Name: "X"},
		{Name: "a", Mode: "sudo"},
		{Name: "a", Authentication: "magic"},
		{Name: "a", Prefix: strings.Repeat("p", 129)},
		{Name: "a", Expiry: now.Add(-time.Second)},
		{Name: "a", GID: &neg},
		{Name: "a", Class: "../x"},
		{Name: "a", Templates: map[string]string{"../x": ""}},
		{Name: "a", Templates: map[string]string{"x": "\xff"}},
		{Name: "a", Templates: map[string]string{"x": strings.Repeat("x", maxTemplates+1)}},
		{Name: "a", ServiceAccount: "a\nb"},
		{Name: "a", Parameters: map[string]string{"": "x"}},
	} {
		if err := bad.Check(now); CodeOf(err) != CodeInvalid {
			t.Errorf("%.60v: %v", bad, err)
		}
	}
}
