package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// jsonDocuments reads JSON documents, one after the other, as the YAML nodes
// that they would be. Most JSON is YAML, but not all: YAML parsers refuse \/ and
// surrogate pairs. ok is false where the text is no JSON.
func jsonDocuments(text []byte) (docs []*yaml.Node, ok bool) {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) == 0 || start[0] != '{' {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	j := &jsonReader{text: text, dec: dec, line: 1}
	for {
		n, err := j.node()
		if errors.Is(err, io.EOF) {
			return docs, true
		}
		if err != nil {
			return nil, false
		}
		docs = append(docs, n)
	}
}

// jsonReader keeps count of the lines up to offset.
type jsonReader struct {
	text            []byte
	dec             *json.Decoder
	offset, newline int // newline is where the current line begins
	line            int
}

// next is the next token, with a node at its place. The decoder stands behind
// the token before; what separates the two is passed over.
func (j *jsonReader) next() (json.Token, *yaml.Node, error) {
	start := int(j.dec.InputOffset())
	for start < len(j.text) && bytes.IndexByte([]byte(" \t\r\n,:"), j.text[start]) >= 0 {
		start++
	}
	for ; j.offset < start; j.offset++ {
		if j.text[j.offset] == '\n' {
			j.line, j.newline = j.line+1, j.offset+1
		}
	}
	column := 1 + len([]rune(string(j.text[j.newline:start])))
	token, err := j.dec.Token()
	return token, &yaml.Node{Line: j.line, Column: column}, err
}

// node reads one value.
func (j *jsonReader) node() (*yaml.Node, error) {
	token, n, err := j.next()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for j.dec.More() {
			child, err := j.node()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, _, err := j.next()
		return n, err
	case string:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!str", v
	case json.Number:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!float", v.String()
	case bool:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!bool", map[bool]string{true: "true", false: "false"}[v]
	default:
		n.Kind, n.Tag, n.Value = yaml.ScalarNode, "!!null", "null"
	}
	return n, nil
}
