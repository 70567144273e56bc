package cdi

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Lengths of names, in bytes.
const (
	maxVendor = 253 // CDI-044
	maxName   = 63  // CDI-042, and for a device's name CDI-052
	maxLabel  = 63  // of one DNS label, RFC 1035
)

// ParseDevice takes a qualified device name, vendor.com/class=name, apart. The
// error wraps ErrInvalid.
func ParseDevice(device string) (vendor, class, name string, err error) {
	kind, name, ok := strings.Cut(device, "=")
	if !ok {
		return "", "", "", fmt.Errorf("device %q has no = between kind and name (vendor.com/class=name): %w", device, ErrInvalid)
	}
	vendor, class, ok = strings.Cut(kind, "/")
	if !ok {
		return "", "", "", fmt.Errorf("device %q has no / between vendor and class (vendor.com/class=name): %w", device, ErrInvalid)
	}
	for _, message := range []string{wrongVendor(vendor), wrongName("class", class), wrongName("device name", name)} {
		if message != "" {
			return "", "", "", fmt.Errorf("device %q: %s: %w", device, message, ErrInvalid)
		}
	}
	return vendor, class, name, nil
}

// QualifiedName puts a device's name together: kind=name.
func QualifiedName(kind, name string) string { return kind + "=" + name }

// FileName is the name by which a spec of that kind is usually written:
// vendor.com-class.json. A transient spec, which lives as long as something of
// the host's, carries that thing's id: vendor.com-class_id.json. These are the names
// that upstream's library makes, and as there, a-b/c and a/b-c have the same.
func FileName(kind, id string) string {
	name := strings.Replace(kind, "/", "-", 1)
	if id != "" {
		name += "_" + strings.Map(func(r rune) rune {
			if r == '/' || r == ':' || r < ' ' {
				return '_'
			}
			return r
		}, id)
	}
	return name + ".json"
}

// wrongVendor says what keeps s from being the prefix of a kind: a DNS subdomain
// (CDI-044). It is "" if nothing does.
func wrongVendor(s string) string {
	if len(s) > maxVendor {
		return fmt.Sprintf("vendor is %d characters long, more than %d", len(s), maxVendor)
	}
	for label := range strings.SplitSeq(s, ".") {
		switch {
		case label == "":
			return fmt.Sprintf("vendor %q is empty or has two dots in a row or at an end", s)
		case len(label) > maxLabel:
			return fmt.Sprintf("vendor %q has a part of more than %d characters", s, maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Sprintf("vendor %q has a part that begins or ends with a dash", s)
		}
		for i := range len(label) {
			if !alphanumeric(label[i]) && label[i] != '-' {
				return fmt.Sprintf("vendor %q holds %q, which a DNS name cannot", s, label[i])
			}
		}
	}
	return ""
}

// wrongName says what keeps s from being a class (CDI-042) or a device's name
// (CDI-050), but for what depends on the version.
func wrongName(what, s string) string {
	switch {
	case s == "":
		return what + " is empty"
	case len(s) > maxName:
		return fmt.Sprintf("%s is %d characters long, more than %d", what, len(s), maxName)
	case !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]):
		return fmt.Sprintf("%s %q does not begin and end with a letter or digit", what, s)
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return fmt.Sprintf("%s %q holds %q; allowed are letters, digits, -, _ and .", what, s, c)
		}
	}
	return ""
}

// nearestName is what to write instead of a class or a device's name, in quotes:
// "0-1" for 0:1. It is "" if nothing of the name can stay.
func nearestName(before, s string) string {
	name := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && alphanumeric(byte(r)) || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, s)
	name = strings.TrimLeft(name, "-_.")
	name = strings.TrimRight(name[:min(len(name), maxName)], "-_.")
	if name == "" {
		return ""
	}
	return strconv.Quote(before + name)
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || digit(c)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
