package device

import (
	"context"
	"errors"
	"testing"
)

func TestParseMatch(t *testing.T) {
	for _, s := range []string{
		"/dev/fuse", "/dev/ttyUSB*", "dri", "dri:pci-0000_03_00.0", "usb:0403:6001", "usb:0403:6001:A50285", "nvidia,driver=nvidia,model=*H100*",
	} {
		m, err := ParseMatch(s)
		if err != nil || m.String() != s {
			t.Errorf("%s is read as %q, error %v", s, m, err)
		}
	}
	for _, s := range []string{
		"", "fuse:", "nothing", ":x", "dri,", "dri,vendor", "dri,vendor=", "dri,=x", "dri,colour=red", "dri,pci=a,pci=b",
		"/etc/passwd", "/dev/../etc/passwd", "/dev/", "/dev/[", "dri:[", "dri,pci=[", "/", "dev/fuse",
	} {
		if _, err := ParseMatch(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: error %v, want ErrInvalid", s, err)
		}
	}
	if _, err := (Host{}).Find(context.Background(), Match{Kind: "nothing"}); !errors.Is(err, ErrInvalid) {
		t.Errorf("find of a kind that is none: %v", err)
	}
}

func FuzzParseMatch(f *testing.F) {
	for _, s := range []string{"/dev/fuse", "usb:0403:6001:x", "nvidia,model=*a*,pci=?", "a:b,c=d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMatch(s)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again, err := ParseMatch(m.String())
		if err != nil || again.String() != m.String() {
			t.Fatalf("%q becomes %q, then %q, error %v", s, m, again, err)
		}
		m.fits(Device{Kind: USB, Name: "usb-1", Attributes: attributes{AttrVendor: "0403", AttrModel: "a/b"}})
	})
}
