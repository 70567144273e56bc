package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// origin leads from the JSON text that a YAML file was turned into back to the
// lines of that file. There is one reader of specs, and it reads JSON.
type origin struct{ marks []mark }

// mark says where the value or key at an offset of the JSON text comes from.
type mark struct {
	offset, line, column int
	rewritten            bool // a number written otherwise than in decimal digits
}

// position is where the last mark up to an offset comes from.
func (o *origin) position(at int) (line, column int) {
	i := sort.Search(len(o.marks), func(i int) bool { return o.marks[i].offset > at })
	if i == 0 {
		return 1, 1
	}
	return o.marks[i-1].line, o.marks[i-1].column
}

func (o *origin) rewritten(at int) bool {
	i := sort.Search(len(o.marks), func(i int) bool { return o.marks[i].offset >= at })
	return i < len(o.marks) && o.marks[i].offset == at && o.marks[i].rewritten
}

// yamlToJSON turns one YAML document into JSON. Aliases are replaced by what they
// stand for, within bounds; merge keys and tags, which JSON has nothing like, are
// refused.
func yamlToJSON(text string) (string, *origin, *Problem) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return "", nil, yamlProblem(err)
	}
	var next yaml.Node
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		if err != nil {
			return "", nil, yamlProblem(err)
		}
		return "", nil, &Problem{Line: next.Line, Column: next.Column, Path: "$", Rule: RuleTrailing, Message: "a second document follows", Fix: "one spec in a file"}
	}
	c := converter{budget: 1<<20 + 4*len(text)}
	c.node(&doc, 0)
	if c.problem != nil {
		return "", nil, c.problem
	}
	return c.out.String(), &c.origin, nil
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func yamlProblem(err error) *Problem {
	p := &Problem{Line: 1, Column: 1, Path: "$", Rule: RuleSyntax, Message: err.Error()}
	if m := yamlLine.FindStringSubmatch(p.Message); m != nil {
		p.Message = p.Message[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			p.Line = n
		}
	}
	return p
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
		c.problem = &Problem{Line: n.Line, Column: n.Column, Path: "$", Rule: rule, Message: message, Fix: fix}
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

// scalar writes a scalar as YAML's core schema resolves it.
func (c *converter) scalar(n *yaml.Node) {
	text, rewritten := quoteJSON(n.Value), false
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
	case "!!null":
		text = "null"
	case "!!bool":
		text = strings.ToLower(n.Value)
	case "!!int":
		v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
		if err == nil {
			text = strconv.FormatInt(v, 10)
			rewritten = text != n.Value
		}
	case "!!float":
		if json.Valid([]byte(n.Value)) {
			text = n.Value
		}
	default:
		c.fail(n, RuleSyntax, "a spec has no tags such as "+tag, "it without the tag")
	}
	c.mark(n, rewritten)
	c.write(n, text)
}

// quoteJSON writes a string without the escapes that are for HTML.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
