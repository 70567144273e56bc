package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// origin leads from the JSON text that a YAML file was turned into back to the
// lines of that file. There is one reader of specs, and it reads JSON.
type origin struct {
	text  string // of the YAML file
	marks []mark
}

// mark says where the value or key at an offset of the JSON text comes from, as
// the YAML library counts lines and columns.
type mark struct {
	offset, line, column int
	rewritten            bool // a number written otherwise than in decimal digits
}

// maxYAML bounds a YAML file, in bytes: the tree of it in memory is up to two
// hundred times as large.
const maxYAML = 4 << 20

// position is where the last mark up to an offset comes from.
func (o *origin) position(at int) (line, column int) {
	i := sort.Search(len(o.marks), func(i int) bool { return o.marks[i].offset > at })
	if i == 0 {
		return 1, 1
	}
	return yamlPosition(o.text, o.marks[i-1].line, o.marks[i-1].column)
}

// yamlPosition is a position as this package counts: lines end with a line feed,
// and columns are bytes. YAML knows more ends of lines, and its columns are
// characters.
func yamlPosition(text string, line, column int) (int, int) {
	at := 0
	for ; line > 1; line-- {
		n := strings.IndexAny(text[at:], "\n\r\u0085\u2028\u2029")
		if n < 0 {
			break
		}
		at += n
		_, size := utf8.DecodeRuneInString(text[at:])
		if strings.HasPrefix(text[at:], "\r\n") {
			size = 2
		}
		at += size
	}
	for ; column > 1 && at < len(text); column-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return position(text, at)
}

func (o *origin) rewritten(at int) bool {
	i := sort.Search(len(o.marks), func(i int) bool { return o.marks[i].offset >= at })
	return i < len(o.marks) && o.marks[i].offset == at && o.marks[i].rewritten
}

// yamlToJSON turns one YAML document into JSON. Aliases are replaced by what they
// stand for, within bounds; merge keys and tags, which JSON has nothing like, are
// refused. text is UTF-8.
func yamlToJSON(text string) (string, *origin, *Problem) {
	if len(text) > maxYAML {
		return "", nil, &Problem{Line: 1, Column: 1, Path: "$", Rule: RuleSize, Message: fmt.Sprintf("a YAML file has more than %d MiB", maxYAML>>20), Fix: "it as JSON"}
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return "", nil, yamlProblem(text, err)
	}
	var next yaml.Node
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		if err != nil {
			return "", nil, yamlProblem(text, err)
		}
		line, column := yamlPosition(text, next.Line, next.Column)
		return "", nil, &Problem{Line: line, Column: column, Path: "$", Rule: RuleTrailing, Message: "a second document follows", Fix: "one spec in a file"}
	}
	c := converter{origin: origin{text: text}, budget: 1<<20 + 4*len(text)}
	c.node(&doc, 0)
	if c.problem != nil {
		return "", nil, c.problem
	}
	return c.out.String(), &c.origin, nil
}

var (
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// Of these the YAML library counts lines from 0.
	yamlFromZero = regexp.MustCompile(`^did not find expected (node content|key|',' or .*|'-' indicator|<.*>)$`)
	yamlAnchor   = regexp.MustCompile(`^unknown anchor '(.*)' referenced$`)
)

// yamlProblem finds the place of an error of the YAML library, which tells the line
// at most.
func yamlProblem(text string, err error) *Problem {
	p := &Problem{Line: 1, Column: 1, Path: "$", Rule: RuleSyntax, Message: err.Error()}
	m := yamlLine.FindStringSubmatch(p.Message)
	if m == nil {
		return p
	}
	p.Message = p.Message[len(m[0]):]
	line, _ := strconv.Atoi(m[1]) // 0 without one
	if line > 0 && yamlFromZero.MatchString(p.Message) {
		line++
	}
	p.Line, p.Column = yamlPosition(text, line, 1)
	at := -1
	if anchor := yamlAnchor.FindStringSubmatch(p.Message); anchor != nil {
		at = strings.Index(text, "*"+anchor[1])
	} else if p.Message == "control characters are not allowed" {
		at = strings.IndexFunc(text, unprintable)
	}
	if at >= 0 {
		p.Line, p.Column = position(text, at)
	}
	return p
}

// unprintable tells the characters that a YAML file does not have.
func unprintable(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7F && r < 0xA0 && r != 0x85 || r == 0xFFFE || r == 0xFFFF
}

// converter writes the JSON text of a tree of YAML nodes.
type converter struct {
	out     strings.Builder
	origin  origin
	budget  int // bytes left to write: aliases of aliases grow beyond all bounds
	problem *Problem
}

func (c *converter) fail(n *yaml.Node, rule Rule, message, fix string) {
	if c.problem == nil {
		line, column := yamlPosition(c.origin.text, n.Line, n.Column)
		c.problem = &Problem{Line: line, Column: column, Path: "$", Rule: rule, Message: message, Fix: fix}
	}
}

func (c *converter) write(n *yaml.Node, text string) {
	if c.budget -= len(text); c.budget < 0 {
		c.fail(n, RuleSize, "with its aliases replaced, the spec is far larger than the file", "")
		return
	}
	c.out.WriteString(text)
}

func (c *converter) mark(n *yaml.Node, rewritten bool) {
	c.origin.marks = append(c.origin.marks, mark{c.out.Len(), n.Line, n.Column, rewritten})
}

func (c *converter) node(n *yaml.Node, depth int) {
	if depth > maxDepth {
		c.fail(n, RuleSize, fmt.Sprintf("nested more than %d deep, or an alias holds itself", maxDepth), "")
	}
	if c.problem != nil {
		return
	}
	switch n.Kind {
	case yaml.DocumentNode:
		c.node(n.Content[0], depth)
	case yaml.AliasNode:
		c.node(n.Alias, depth+1)
	case yaml.MappingNode:
		c.mark(n, false)
		c.mapping(n, depth)
	case yaml.SequenceNode:
		c.mark(n, false)
		c.sequence(n, depth)
	default:
		c.scalar(n)
	}
}

func (c *converter) mapping(n *yaml.Node, depth int) {
	if tag := n.ShortTag(); tag != "!!map" {
		c.fail(n, RuleSyntax, "a spec has no tags such as "+tag, "it without the tag")
	}
	c.write(n, "{")
	for i := 0; i+1 < len(n.Content) && c.problem == nil; i += 2 {
		if i > 0 {
			c.write(n, ",")
		}
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			c.fail(key, RuleSyntax, "a key is no plain text", "a field's name")
		case key.ShortTag() == "!!merge":
			c.fail(key, RuleSyntax, "a spec has no merge keys", "the fields out in full")
		}
		c.mark(key, false)
		c.write(key, quoteJSON(key.Value)+":")
		c.node(n.Content[i+1], depth+1)
	}
	c.write(n, "}")
}

func (c *converter) sequence(n *yaml.Node, depth int) {
	if tag := n.ShortTag(); tag != "!!seq" {
		c.fail(n, RuleSyntax, "a spec has no tags such as "+tag, "it without the tag")
	}
	c.write(n, "[")
	for i, v := range n.Content {
		if i > 0 {
			c.write(n, ",")
		}
		c.node(v, depth+1)
	}
	c.write(n, "]")
}

// scalar writes a scalar as YAML's core schema resolves it. What is no value of
// its tag, or none that JSON has (such as .inf), is text.
func (c *converter) scalar(n *yaml.Node) {
	text, rewritten := quoteJSON(n.Value), false
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
	case "!!null":
		text = "null"
	case "!!bool":
		if word := strings.ToLower(n.Value); word == "true" || word == "false" {
			text = word
		}
	case "!!int", "!!float":
		if number := jsonNumber(n.Value); number != "" {
			text, rewritten = number, number != n.Value
		}
	default:
		c.fail(n, RuleSyntax, "a spec has no tags such as "+tag, "it without the tag")
	}
	c.mark(n, rewritten)
	c.write(n, text)
}

// jsonNumber writes a number of YAML's as JSON does: 0x10, 0o20, 020 and 1_6 are 16.
// It is "" for what is none.
func jsonNumber(s string) string {
	plain := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if n, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return strconv.FormatUint(n, 10)
	}
	switch f, err := strconv.ParseFloat(plain, 64); {
	case err != nil || math.IsInf(f, 0) || math.IsNaN(f):
		return ""
	case json.Valid([]byte(plain)):
		return plain // with all its digits
	default:
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
}

// quoteJSON writes a string without the escapes that are for HTML.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
