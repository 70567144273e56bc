package objectstore

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// The limits of a key: S3's own for the whole, the file system's for a segment.
const (
	maxKeyBytes     = 1024
	maxSegmentBytes = 255
)

// tmpDir is where the gateway keeps parts and temporary files in each bucket.
const tmpDir = ".sgwtmp"

// CheckBucketName returns ErrInvalid with the rule of S3 that name breaks.
func CheckBucketName(name string) error {
	switch reason := bucketNameFault(name); reason {
	case "":
		return nil
	default:
		return fail(ErrInvalid, "bucket name %q: %s", clip(name), reason)
	}
}

func bucketNameFault(name string) string {
	if len(name) < 3 || len(name) > 63 {
		return "must be 3 to 63 characters long"
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return "may hold only lower-case letters, digits, dots and hyphens"
		}
	}
	if edge := name[:1] + name[len(name)-1:]; strings.ContainsAny(edge, ".-") {
		return "must begin and end with a letter or digit"
	}
	if strings.Contains(name, "..") {
		return "must not hold two dots in a row"
	}
	if addr, err := netip.ParseAddr(name); err == nil && addr.Is4() {
		return "must not look like an IP address"
	}
	for _, prefix := range []string{"xn--", "sthree-", "amzn-s3-demo-"} {
		if strings.HasPrefix(name, prefix) {
			return "must not begin with " + prefix
		}
	}
	for _, suffix := range []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"} {
		if strings.HasSuffix(name, suffix) {
			return "must not end with " + suffix
		}
	}
	return ""
}

// clip keeps a hostile name from filling a log line.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// keyFault says why a key cannot be an object here: keys are paths, so each
// must have exactly one spelling and stay in its bucket. The empty reason means
// that it can. tooLong tells S3's KeyTooLongError from its InvalidArgument.
func keyFault(key string) (reason string, tooLong bool) {
	if len(key) > maxKeyBytes {
		return "a key holds at most 1024 bytes", true
	}
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return "a key is UTF-8 without NUL", false
	}
	// One slash at the end makes a directory object.
	segments := strings.Split(strings.TrimSuffix(key, "/"), "/")
	for i, s := range segments {
		switch {
		case len(s) > maxSegmentBytes:
			return "this store holds at most 255 bytes between two slashes of a key", true
		case s == "":
			return "this store keeps keys as paths: no empty part between slashes", false
		case s == "." || s == "..":
			return "this store keeps keys as paths: no . or .. between slashes", false
		case i == 0 && s == tmpDir:
			return "keys below " + tmpDir + " are the store's own", false
		}
	}
	return "", false
}

// plainID reports whether an upload or version id is one: letters, digits and
// hyphens. The backend makes paths of them.
func plainID(id string) bool {
	if len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' {
			return false
		}
	}
	return true
}
