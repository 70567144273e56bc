package cdi

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) from a text and nothing more lenient: no control
// character in a string, no half a surrogate pair, no key twice. Strings without
// escapes are parts of the text, so that reading one costs no memory.
//
// The first error of syntax puts pos at the end of the text, so that whatever
// reads on stops; every loop asks ended.
type scanner struct {
	src   string
	pos   int
	depth int
	// at is where the value or key read last begins.
	at int
	// broken is what is wrong with the syntax, at brokenAt.
	broken   string
	brokenAt int
}

// maxDepth bounds the nesting of a text; a spec needs 8.
const maxDepth = 64

func (s *scanner) fail(at int, format string, args ...any) {
	if s.broken == "" {
		s.broken, s.brokenAt = fmt.Sprintf(format, args...), at
	}
	s.pos = len(s.src)
}

func (s *scanner) ended() bool { return s.broken != "" }

// peek passes over space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// expect passes over one byte.
func (s *scanner) expect(c byte, where string) bool {
	if got := s.peek(); got != c {
		s.fail(s.pos, "expected %q %s, found %s", c, where, s.found())
		return false
	}
	s.pos++
	return true
}

// found describes what stands at pos.
func (s *scanner) found() string {
	if s.pos >= len(s.src) {
		return "the end"
	}
	r, _ := utf8.DecodeRuneInString(s.src[s.pos:])
	return strconv.QuoteRune(r)
}

// open enters an object or a list.
func (s *scanner) open() bool {
	if s.depth++; s.depth > maxDepth {
		s.fail(s.pos, "nested more than %d deep", maxDepth)
		return false
	}
	s.pos++
	return true
}

// more passes over the comma between two members, or over the end. first is
// whether none was read yet.
func (s *scanner) more(end byte, first bool) bool {
	if s.ended() {
		return false
	}
	c := s.peek()
	if c == end {
		s.pos++
		s.depth--
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		s.fail(s.pos, "expected ',' or %q, found %s", end, s.found())
		return false
	}
	s.pos++
	if s.peek() == end {
		s.fail(s.pos, "a comma stands before %q", end)
		return false
	}
	return true
}

// key reads the name of a member and its colon.
func (s *scanner) key() (string, bool) {
	if s.peek() != '"' {
		s.at = s.pos
		s.fail(s.pos, "expected a key in double quotes, found %s", s.found())
		return "", false
	}
	key := s.text()
	at := s.at
	ok := s.expect(':', "after a key")
	s.at = at
	return key, ok && !s.ended()
}

// text reads a string; pos is at its opening quote.
func (s *scanner) text() string {
	s.at = s.pos
	begin := s.pos + 1
	for i := begin; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '"':
			s.pos = i + 1
			return s.src[begin:i]
		case c == '\\':
			return s.escaped(begin, i)
		case c < ' ':
			s.fail(i, "a string holds the control character %q; write it as \\u%04x", c, c)
			return ""
		}
	}
	s.fail(s.at, "a string does not end")
	return ""
}

// escaped goes on with a string at its first escape.
func (s *scanner) escaped(begin, i int) string {
	var b strings.Builder
	b.WriteString(s.src[begin:i])
	for i < len(s.src) {
		switch c := s.src[i]; {
		case c == '"':
			s.pos = i + 1
			return b.String()
		case c < ' ':
			s.fail(i, "a string holds the control character %q; write it as \\u%04x", c, c)
			return ""
		case c != '\\':
			b.WriteByte(c)
			i++
		default:
			r, n := unescape(s.src[i:])
			if n == 0 {
				s.fail(i, "a string holds an escape that JSON does not have")
				return ""
			}
			b.WriteRune(r)
			i += n
		}
	}
	s.fail(s.at, "a string does not end")
	return ""
}

// unescape reads one escape and returns its length, 0 if it is none.
func unescape(s string) (rune, int) {
	if len(s) < 2 {
		return 0, 0
	}
	if i := strings.IndexByte(`"\/bfnrt`, s[1]); i >= 0 {
		return rune("\"\\/\b\f\n\r\t"[i]), 2
	}
	r, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := hex4(s[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32) // takes no sign
	return rune(n), err == nil
}

// number reads a number and returns its text.
func (s *scanner) number() string {
	s.at = s.pos
	i := s.pos
	digits := func() bool {
		begin := i
		for i < len(s.src) && digit(s.src[i]) {
			i++
		}
		return i > begin
	}
	if s.src[i] == '-' {
		i++
	}
	whole := i
	ok := digits()
	if ok && s.src[whole] == '0' && i > whole+1 {
		s.fail(s.at, "a number begins with 0")
		return ""
	}
	if ok && i < len(s.src) && s.src[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(s.src) && s.src[i]|0x20 == 'e' {
		if i++; i < len(s.src) && (s.src[i] == '+' || s.src[i] == '-') {
			i++
		}
		ok = digits()
	}
	if !ok {
		s.fail(s.at, "a number is not complete")
		return ""
	}
	s.pos = i
	return s.src[s.at:i]
}

// word reads true, false or null.
func (s *scanner) word(w string) bool {
	s.at = s.pos
	if !strings.HasPrefix(s.src[s.pos:], w) {
		return false
	}
	s.pos += len(w)
	return true
}

// skip passes over one value of any kind and says what kind it was.
func (s *scanner) skip() (kind string) {
	at := s.pos
	switch c := s.peek(); {
	case c == '{':
		at, kind = s.pos, "an object"
		if s.open() {
			for first := true; s.more('}', first); first = false {
				if _, ok := s.key(); ok {
					s.skip()
				}
			}
		}
	case c == '[':
		at, kind = s.pos, "a list"
		if s.open() {
			for first := true; s.more(']', first); first = false {
				s.skip()
			}
		}
	case c == '"':
		at, kind = s.pos, "a string"
		s.text()
	case c == '-' || digit(c):
		at, kind = s.pos, "a number"
		s.number()
	case c == 't' && s.word("true"), c == 'f' && s.word("false"):
		at, kind = s.at, "a boolean"
	case c == 'n' && s.word("null"):
		at, kind = s.at, "null"
	default:
		s.fail(s.pos, "expected a value, found %s", s.found())
	}
	s.at = at
	return kind
}
