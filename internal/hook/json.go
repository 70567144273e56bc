package hook

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads what a runtime writes in JSON. To decode it by reflection costs
// each start of a container more than all else that is done here, and would take
// "Root" for "root" and the last of two for the one that is meant.
type scanner struct {
	data  []byte
	at    int
	depth int
}

// maxDepth is how deep objects and arrays may lie in each other.
const maxDepth = 1000

var errTwice = errors.New("it is there twice")

// document reads one object and nothing after it. Member is called for each
// member of it and reads its value.
func (s *scanner) document(member func(name string) error) error {
	if err := s.object(member); err != nil {
		return err
	}
	if s.space(); s.at < len(s.data) {
		return s.want("nothing after the object")
	}
	return nil
}

// object reads an object; null is one without members.
func (s *scanner) object(member func(name string) error) error {
	if s.word("null") {
		return nil
	}
	return s.list('{', '}', func() error {
		s.space()
		name, err := s.quoted()
		if err != nil {
			return err
		}
		if !s.take(':') {
			return s.want("a colon")
		}
		if err := member(unquote(name)); err != nil {
			return fmt.Errorf("%s: %w", unquote(name), err)
		}
		return nil
	})
}

// array reads an array; null is one without elements.
func (s *scanner) array(element func() error) error {
	if s.word("null") {
		return nil
	}
	return s.list('[', ']', element)
}

func (s *scanner) list(first, last byte, item func() error) error {
	if !s.take(first) {
		return s.want(strconv.QuoteRune(rune(first)))
	}
	if s.depth++; s.depth > maxDepth {
		return fmt.Errorf("more than %d objects and arrays lie in each other", maxDepth)
	}
	defer func() { s.depth-- }()
	if s.take(last) {
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.take(last) {
			return nil
		}
		if !s.take(',') {
			return s.want("a comma or " + strconv.QuoteRune(rune(last)))
		}
	}
}

// text reads a string to where none is yet; null is none.
func (s *scanner) text(to *string) error {
	if s.word("null") {
		return nil
	}
	raw, err := s.quoted()
	if err == nil && *to != "" {
		err = errTwice
	}
	*to = unquote(raw)
	return err
}

// skip reads a value of any kind.
func (s *scanner) skip() error {
	switch s.space() {
	case '{':
		return s.object(func(string) error { return s.skip() })
	case '[':
		return s.array(s.skip)
	case '"':
		_, err := s.quoted()
		return err
	}
	if s.word("null") || s.word("true") || s.word("false") || s.number() {
		return nil
	}
	return s.want("a value")
}

// space passes over white space; what follows is 0 at the end.
func (s *scanner) space() byte {
	for ; s.at < len(s.data); s.at++ {
		if c := s.data[s.at]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.space() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) word(w string) bool {
	s.space()
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

func (s *scanner) want(what string) error { return fmt.Errorf("byte %d: want %s", s.at, what) }

// quoted reads a string, and returns what is between its quotes.
func (s *scanner) quoted() ([]byte, error) {
	if s.space() != '"' {
		return nil, s.want("a string")
	}
	for i := s.at + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			raw := s.data[s.at+1 : i]
			s.at = i + 1
			return raw, nil
		case c < ' ':
			return nil, s.want("a string without control characters")
		case c == '\\':
			n := escape(s.data[i:])
			if n == 0 {
				return nil, s.want("a string with escapes of JSON's")
			}
			i += n - 1
		}
	}
	return nil, s.want("a string that ends")
}

// escape is how long the escape at the start of b is; 0 if it is none.
func escape(b []byte) int {
	switch {
	case len(b) > 1 && bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) >= 0:
		return 2
	case len(b) > 5 && b[1] == 'u' && utf16Of(b) >= 0:
		return 6
	default:
		return 0
	}
}

// utf16Of is the unit of UTF-16 that \u with four digits stands for; -1 if b
// begins with something else.
func utf16Of(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// unquote undoes the escapes of a string. Bytes that are not UTF-8 are kept: a
// path may hold them.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var out []byte
	for len(raw) > 0 {
		switch {
		case raw[0] != '\\':
			out = append(out, raw[0])
			raw = raw[1:]
		case raw[1] != 'u':
			i := bytes.IndexByte([]byte(`"\/bfnrt`), raw[1])
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			raw = raw[2:]
		default:
			r := utf16Of(raw)
			raw = raw[6:]
			if pair := utf16.DecodeRune(r, utf16Of(raw)); pair != utf8.RuneError {
				r, raw = pair, raw[6:]
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// number reads a number: -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?
func (s *scanner) number() bool {
	b := s.data[s.at:]
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	n := digits(b)
	if n == 0 || n > 1 && b[0] == '0' {
		return false
	}
	b = b[n:]
	if len(b) > 0 && b[0] == '.' {
		if n = digits(b[1:]); n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		if n = digits(b); n == 0 {
			return false
		}
		b = b[n:]
	}
	s.at = len(s.data) - len(b)
	return true
}

// digits is how many digits b begins with.
func digits(b []byte) int { return len(b) - len(bytes.TrimLeft(b, "0123456789")) }
