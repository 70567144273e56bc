package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
)

// pairs is a repeatable flag k=v. Unlike pflag's it splits at no comma, so that
// any value can be given, and it refuses to be told two things of one key.
type pairs map[string]string

func (p pairs) String() string { return "" }
func (p pairs) Type() string   { return "key=value" }
func (p pairs) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" {
		return fmt.Errorf("%q is not key=value", s)
	}
	if old, twice := p[k]; twice && old != v {
		return fmt.Errorf("%q is given twice", k)
	}
	p[k] = v
	return nil
}

// orNil spares an empty map the way into JSON.
func (p pairs) orNil() map[string]string {
	if len(p) == 0 {
		return nil
	}
	return p
}

// choice is a flag that takes one of a few words, in any case.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}
func (c choice) Type() string { return strings.Join(c.words, "|") }
func (c choice) Set(s string) error {
	i := slices.IndexFunc(c.words, func(w string) bool { return strings.EqualFold(w, s) })
	if i < 0 {
		return fmt.Errorf("%q is none of %s", s, strings.Join(c.words, ", "))
	}
	*c.value = c.words[i]
	return nil
}

// mode is a flag that takes a mode in any spelling.
type mode struct{ m *claim.Mode }

func (m mode) String() string {
	if m.m == nil {
		return ""
	}
	return string(*m.m)
}
func (m mode) Type() string { return strings.Join(modes(), "|") }
func (m mode) Set(s string) error {
	v, err := claim.ParseMode(s)
	if err == nil {
		*m.m = v
	}
	return err
}

// modes are the words of --mode.
func modes() []string {
	return []string{string(claim.ModeReadWrite), string(claim.ModeReadOnly), string(claim.ModeWriteOnly)}
}

// span is a flag that takes a duration, days too: 10m, 24h, 7d, 1d12h.
type span struct{ d *time.Duration }

func (s span) String() string {
	if s.d == nil || *s.d == 0 {
		return "0s"
	}
	return s.d.String()
}
func (s span) Type() string { return "duration" }
func (s span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s.d = d
	}
	return err
}

// parseSpan reads a duration that is not negative; a d is 24 hours.
func parseSpan(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration such as 10m, 24h or 7d", text)
	var sum time.Duration
	rest := text
	if days, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 65,535 days stay far from overflow
		if err != nil {
			return 0, bad
		}
		sum, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			return sum, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || sum+d < sum {
		return 0, bad
	}
	return sum + d, nil
}

// expiry is a flag that takes a point in time (RFC 3339) or a span from now.
type expiry struct {
	at       time.Time
	in       time.Duration
	relative bool
}

func (e *expiry) String() string { return "" }
func (e *expiry) Type() string   { return "duration|time" }
func (e *expiry) Set(text string) error {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		*e = expiry{at: at}
		return nil
	}
	in, err := parseSpan(text)
	if err != nil || in == 0 {
		return fmt.Errorf("%q is neither a duration such as 24h or 7d nor a time such as 2030-01-31T12:00:00Z", text)
	}
	*e = expiry{in: in, relative: true}
	return nil
}

// templates is a repeatable flag name=file: a template's text by the name of
// the file it makes.
type templates map[string]string

// maxTemplate bounds one template, in bytes: it is kept in the ledger.
const maxTemplate = 64 << 10

func (t templates) String() string { return "" }
func (t templates) Type() string   { return "name=file" }
func (t templates) Set(s string) error {
	name, file, ok := strings.Cut(s, "=")
	if !ok || name == "" || file == "" {
		return fmt.Errorf("%q is not name=file", s)
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q is no plain file name", name)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if len(text) > maxTemplate {
		return fmt.Errorf("%s is larger than %d KiB", file, maxTemplate>>10)
	}
	t[name] = string(text)
	return nil
}

// gid is a flag that takes a group id; nil until it is set.
type gid struct{ id *int }

func (g *gid) String() string { return "" }
func (g *gid) Type() string   { return "gid" }
func (g *gid) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("%q is no group id", s)
	}
	id := int(n)
	g.id = &id
	return nil
}
