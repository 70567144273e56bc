package manifest

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v3"
)

// The bounds of a source, in bytes, and of what is said of one run.
const (
	maxSource = 32 << 20
	maxSearch = 64 << 10
	maxDeep   = 4000 // what may open a level; goccy's time grows with its square
	maxErrors = 20
)

// position is a place in the current source.
type position struct{ line, column int }

func at(n *yaml.Node) position {
	if n == nil {
		return position{1, 1}
	}
	return position{max(n.Line, 1), max(n.Column, 1)}
}

// documents parses the syntax, up to the first mistake.
func (r *reader) documents(text []byte) (docs []*yaml.Node) {
	switch {
	case len(text) > maxSource:
		r.fail(position{1, 1}, "larger than %d MiB", maxSource>>20)
		return nil
	case !utf8.Valid(text):
		r.fail(invalidAt(text), "not valid UTF-8")
		return nil
	case bytes.IndexByte(text, 0) >= 0:
		r.fail(offsetAt(text, bytes.IndexByte(text, 0)), "holds a NUL byte")
		return nil
	}
	if docs, ok := jsonDocuments(text); ok {
		return docs
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			r.syntax(text, err)
			return nil
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null" {
			docs = append(docs, doc.Content[0])
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntax notes a mistake in the syntax. The parser that we trust names no
// column and the line where it noticed; goccy's says where the mistake is, but
// drops what follows an empty document. So the one reads and the other points.
func (r *reader) syntax(text []byte, err error) {
	if p, message, ok := pointAt(text); ok {
		r.fail(p, "%s", message)
		return
	}
	p, message := position{1, 1}, err.Error()
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if line, err := strconv.Atoi(m[1]); err == nil {
			p.line = max(line, 1)
		}
	}
	r.fail(p, "%s", message)
}

func pointAt(text []byte) (p position, message string, ok bool) {
	deep := 0
	for _, opening := range []string{"[", "{", "-", "?"} {
		deep += bytes.Count(text, []byte(opening))
	}
	if len(text) > maxSearch || deep > maxDeep {
		return p, "", false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	_, err := parser.ParseBytes(text, 0)
	e, ok := errors.AsType[goccy.Error](err)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return p, "", false
	}
	at := e.GetToken().Position
	return position{max(at.Line, 1), max(at.Column, 1)}, e.GetMessage(), true
}

func invalidAt(text []byte) position {
	i := 0
	for i < len(text) {
		c, size := utf8.DecodeRune(text[i:])
		if c == utf8.RuneError && size <= 1 {
			break
		}
		i += size
	}
	return offsetAt(text, i)
}

func offsetAt(text []byte, offset int) position {
	before := text[:offset]
	return position{
		line:   1 + bytes.Count(before, []byte("\n")),
		column: 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]),
	}
}
