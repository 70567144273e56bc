package cdi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxFile bounds what is read of one file, in bytes. Real specs have some ten
// thousand; the largest machines' have some hundred thousand.
const maxFile = 16 << 20

// ErrNotSpecFile says that a file can be no spec by its name or type.
var ErrNotSpecFile = errors.New("not a CDI spec file")

// Parse reads and checks the text of one spec: YAML if name ends in .yaml, else
// JSON. name is for the error too, which is Problems.
func Parse(name string, text []byte) (*Spec, error) {
	var d decoder
	if err := d.parse(name, string(text)); err != nil {
		return nil, err
	}
	return &d.spec, nil
}

// ReadFile reads and checks one spec file. What is no regular file, or larger
// than 16 MiB, is refused without waiting for it.
func ReadFile(path string) (*Spec, error) {
	text, _, err := readText(path, nil)
	if err != nil {
		return nil, err
	}
	var d decoder
	if err := d.parse(path, unsafeString(text)); err != nil {
		return nil, err
	}
	return &d.spec, nil
}

// unsafeString is text without a copy; text must not change from then on.
func unsafeString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// readText reads a whole file into buf, or into more if that is too small. A
// FIFO is not waited for and a device is not read.
func readText(path string, buf []byte) ([]byte, *unix.Stat_t, error) {
	fd, err := openRetry(path)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, &st, fmt.Errorf("%w: %s is no regular file", ErrNotSpecFile, path)
	case st.Size > maxFile:
		return nil, &st, fmt.Errorf("%w: %s is larger than %d MiB", ErrNotSpecFile, path, maxFile>>20)
	}
	if need := int(st.Size) + 1; cap(buf) < need { // one more, to see the end
		buf = make([]byte, need)
	}
	buf = buf[:cap(buf)]
	n := 0
	for {
		if n == len(buf) {
			if n > maxFile {
				return nil, &st, fmt.Errorf("%w: %s is larger than %d MiB", ErrNotSpecFile, path, maxFile>>20)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		got, err := unix.Read(fd, buf[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, &st, &os.PathError{Op: "read", Path: path, Err: err}
		case got == 0:
			return buf[:n], &st, nil
		}
		n += max(got, 0)
	}
}

func openRetry(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// parse reads text into d.spec and checks it.
func (d *decoder) parse(name, text string) error {
	d.origin = nil
	d.decode(text)
	// JSON is YAML too, and much quicker to read; so what is good JSON is not read
	// as YAML.
	if filepath.Ext(name) == ".yaml" && (d.ended() || len(d.problems) > 0) && utf8.ValidString(text) {
		var p *Problem
		if text, d.origin, p = yamlToJSON(text); p != nil {
			p.File = name
			return Problems{p}
		}
		d.decode(text)
	}
	problems := d.problems
	switch {
	case d.ended():
		line, column := d.position(d.brokenAt)
		problems = append(problems, &Problem{Line: line, Column: column, Path: d.brokenPath(), Rule: RuleSyntax, Message: d.broken})
	case len(problems) < maxProblems: // else some are not known, and what follows from them would be told
		problems = append(problems, d.wrongContent()...)
	}
	if len(problems) == 0 {
		return nil
	}
	sort.SliceStable(problems, func(i, j int) bool {
		a, b := problems[i], problems[j]
		return a.Line < b.Line || a.Line == b.Line && a.Column < b.Column
	})
	problems = problems[:min(len(problems), maxProblems)]
	for _, p := range problems {
		p.File = name
		p.steps = nil // they may hold parts of text, which may be written over
	}
	return problems
}

// wrongContent is what the checker finds, but for what follows from a wrong shape:
// that a name is missing is not told where it is a number.
func (d *decoder) wrongContent() Problems {
	c := checker{spec: &d.spec, strict: true}
	c.walk()
	var problems Problems
	for _, p := range c.problems {
		if !slices.ContainsFunc(d.problems, func(shape *Problem) bool { return shape.explains(p) }) {
			p.Line, p.Column = d.position(locate(d.src, p.steps))
			problems = append(problems, p)
		}
	}
	return problems
}

// position is the line and column of an offset into the text.
func (d *decoder) position(at int) (line, column int) {
	if d.origin != nil {
		return d.origin.position(at)
	}
	return position(d.src, at)
}

func position(text string, at int) (line, column int) {
	before := text[:min(at, len(text))]
	return strings.Count(before, "\n") + 1, at - strings.LastIndexByte(before, '\n')
}

// locate finds the value that steps lead to in a text whose syntax is right, or
// the innermost value around it that is there.
func locate(text string, steps []step) int {
	s := scanner{src: text}
	s.peek()
	at := s.pos
	for _, next := range steps {
		if !s.find(next) {
			return at
		}
		at = s.pos
	}
	return at
}

// find goes from a value to one that it holds.
func (s *scanner) find(next step) bool {
	switch c := s.peek(); {
	case c == '{' && next.index < 0 && s.open():
		for first := true; s.more('}', first); first = false {
			key, ok := s.key()
			s.peek()
			if ok && (key == next.name || strings.EqualFold(key, "additionalGIDs") && strings.EqualFold(key, next.name)) {
				return true
			}
			s.skip()
		}
	case c == '[' && next.index >= 0 && s.open():
		for i := 0; s.more(']', i == 0); i++ {
			if s.peek(); i == next.index {
				return true
			}
			s.skip()
		}
	}
	return false
}
