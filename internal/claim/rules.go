package claim

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of COSI messages (COSI-081, COSI-082), which hold here too so
// that nobody learns of them from a driver.
const (
	maxString = 128
	maxMap    = 4096
	// maxName is the length of a DNS label.
	maxName = 63
	// maxTemplates bounds what a claim may keep in the ledger, in bytes.
	maxTemplates = 256 << 10
)

var (
	label    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	fileName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
)

// CheckName accepts a DNS label (RFC 1123): such a name is safe as a file, as
// part of a bucket name and as a CDI device. What names the thing in the error.
func CheckName(what, name string) error {
	switch {
	case name == "":
		return Errorf(CodeInvalid, "%s needs a name", what)
	case len(name) > maxName:
		return Errorf(CodeInvalid, "the name of %s is %d bytes long; at most %d are allowed", what, len(name), maxName)
	case !label.MatchString(name):
		e := Errorf(CodeInvalid, "%q cannot name %s: use lower-case letters, digits and dashes, with a letter or digit at both ends", shorten(name), what)
		if s := suggest(name); s != "" {
			return e.WithHint("for example %q", s)
		}
		return e
	}
	return nil
}

// shorten keeps hostile input out of messages.
func shorten(s string) string {
	const most = 40
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// suggest is the nearest valid name, or "".
func suggest(name string) string {
	s := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.Trim(s[:min(len(s), maxName)], "-")
}

// CheckString applies COSI's limit of 128 bytes to a value that goes to a
// driver, and refuses control characters (COSI-081).
func CheckString(what, s string) error {
	if len(s) > maxString {
		return Errorf(CodeInvalid, "%s is %d bytes long; COSI allows %d", what, len(s), maxString)
	}
	return CheckText(what, s)
}

// CheckText refuses what is no line of text: bytes that are not UTF-8, and
// control characters.
func CheckText(what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return Errorf(CodeInvalid, "%s is not valid UTF-8", what)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Errorf(CodeInvalid, "%s holds a control character", what)
	}
	return nil
}

// CheckParameters applies COSI's limits to a map of parameters (COSI-082).
func CheckParameters(m map[string]string) error {
	total := 0
	for k, v := range m {
		if k == "" {
			return Errorf(CodeInvalid, "a parameter has no name")
		}
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return Errorf(CodeInvalid, "parameter %q is not valid UTF-8", shorten(k))
		}
		total += len(k) + len(v)
	}
	if total > maxMap {
		return Errorf(CodeInvalid, "the parameters are %d bytes long together; COSI allows %d", total, maxMap)
	}
	return nil
}

// ParseMode reads a mode in any spelling a person may use; "" is "".
func ParseMode(s string) (Mode, error) {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s)) {
	case "":
		return "", nil
	case "readwrite", "rw":
		return ModeReadWrite, nil
	case "readonly", "ro", "read":
		return ModeReadOnly, nil
	case "writeonly", "wo", "write":
		return ModeWriteOnly, nil
	}
	return "", Errorf(CodeInvalid, "%q is no mode", shorten(s)).WithHint("use ReadWrite, ReadOnly or WriteOnly")
}

// ParseDeletionPolicy reads a deletion policy in any case; "" is Retain.
func ParseDeletionPolicy(s string) (DeletionPolicy, error) {
	switch strings.ToLower(s) {
	case "", "retain":
		return Retain, nil
	case "delete":
		return Delete, nil
	}
	return "", Errorf(CodeInvalid, "%q is no deletion policy", shorten(s)).WithHint("use Retain or Delete")
}

// ParseAuthentication reads an authentication type in any case; "" is KEY.
func ParseAuthentication(s string) (Authentication, error) {
	switch strings.ToUpper(s) {
	case "", "KEY":
		return AuthKey, nil
	case "IAM":
		return AuthIAM, nil
	}
	return "", Errorf(CodeInvalid, "%q is no authentication type", shorten(s)).WithHint("use KEY or IAM")
}

// Check validates what a person asked of an access, and puts the defaults in.
// An expiry must lie after now.
func (s *AccessSpec) Check(now time.Time) error {
	var err error
	if err = CheckName("an access", s.Name); err != nil {
		return err
	}
	if s.Class != "" {
		if err = CheckName("a bucket access class", s.Class); err != nil {
			return err
		}
	}
	if s.Mode, err = ParseMode(string(s.Mode)); err != nil {
		return err
	}
	if s.Mode == "" {
		s.Mode = ModeReadWrite
	}
	if s.Authentication, err = ParseAuthentication(string(s.Authentication)); err != nil {
		return err
	}
	if err = CheckString("the prefix", s.Prefix); err != nil {
		return err
	}
	if !s.Expiry.IsZero() && !s.Expiry.After(now) {
		return Errorf(CodeInvalid, "the expiry %s is in the past", s.Expiry.Format(time.RFC3339))
	}
	if s.GID != nil && *s.GID < 0 {
		return Errorf(CodeInvalid, "the group id %d is negative", *s.GID)
	}
	for what, v := range map[string]string{"credentialsSecretName": s.SecretName, "serviceAccountName": s.ServiceAccount} {
		if err = CheckString(what, v); err != nil {
			return err
		}
	}
	if err = CheckParameters(s.Parameters); err != nil {
		return err
	}
	return checkTemplates(s.Templates)
}

func checkTemplates(templates map[string]string) error {
	total := 0
	for name, text := range templates {
		if !fileName.MatchString(name) || len(name) > maxName {
			return Errorf(CodeInvalid, "%q cannot name a template's file: use letters, digits, dots, dashes and underscores", shorten(name))
		}
		if !utf8.ValidString(text) {
			return Errorf(CodeInvalid, "the template %q is not valid UTF-8", name)
		}
		total += len(text)
	}
	if total > maxTemplates {
		return Errorf(CodeInvalid, "the templates are %d bytes long together; at most %d are allowed", total, maxTemplates)
	}
	return nil
}

// NewUID returns a random version 4 UUID.
func NewUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// BucketName is the name given to the driver for a claim (COSI-118): the
// claim's own, so that a person knows it, and twelve digits of its UID, so that
// no later claim of the same name meets this one's retained data. It obeys S3's
// rules for bucket names.
func BucketName(name, uid string) string {
	tail := "-" + strings.ReplaceAll(uid, "-", "")[:12]
	head := name[:min(len(name), maxName-len(tail))]
	return strings.TrimRight(head, "-") + tail
}

// AccountName is the name given to the driver for a generation of an access
// (COSI-033): upstream's ba-<uid>, and from the second generation on its number.
func AccountName(accessUID string, generation int) string {
	if generation <= 1 {
		return "ba-" + accessUID
	}
	return "ba-" + accessUID + "-" + strconv.Itoa(generation)
}

// DeviceName is the name of an access as a CDI device, and of its directory:
// the claim's for the access named "default", else CLAIM.ACCESS.
func DeviceName(claim, access string) string {
	if access == DefaultName {
		return claim
	}
	return claim + "." + access
}

// CheckDeviceName holds the name of an access as a CDI device to the 63
// characters that every reader of specs accepts.
func CheckDeviceName(claim, access string) error {
	if name := DeviceName(claim, access); len(name) > maxName {
		return Errorf(CodeInvalid, "the device %q of access %q would have a name of %d characters; at most %d are allowed", name, access, len(name), maxName).
			WithHint("give the claim or the access a shorter name")
	}
	return nil
}

// SplitDeviceName is the inverse of DeviceName.
func SplitDeviceName(s string) (claim, access string) {
	claim, access, ok := strings.Cut(s, ".")
	if !ok {
		access = DefaultName
	}
	return claim, access
}
