package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
)

// textPlaces finds the lines of a spec's values. JSON is YAML too, and this
// reader knows lines; but it is slow, so it begins when first asked.
type textPlaces struct {
	text []byte
	read bool
	root *yaml.Node
}

// top is the outermost value, nil if the text cannot be read.
func (p *textPlaces) top() *yaml.Node {
	var doc yaml.Node
	if !p.read && yaml.Unmarshal(p.text, &doc) == nil && len(doc.Content) == 1 {
		p.root = doc.Content[0]
	}
	p.read = true
	return p.root
}

// position is the line and column of a path such as $.devices[0].name, or of
// the innermost value around it; 0 if nothing can be told.
func (p *textPlaces) position(path string) (line, column int) {
	for path != "" {
		if n := p.find(path); n != nil {
			return n.Line, n.Column
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return 0, 0
}

// find is the value at a path, or nil.
func (p *textPlaces) find(path string) *yaml.Node {
	at := p.top()
	steps := strings.FieldsFunc(strings.TrimPrefix(path, "$"), func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	for _, step := range steps {
		if at == nil {
			return nil
		}
		if at.Kind == yaml.AliasNode {
			at = at.Alias
		}
		at = child(at, step)
	}
	return at
}

func child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}

// maxLook bounds what is read of a file to explain it, in bytes.
const maxLook = 16 << 20

// errLarge is for an input beyond maxLook.
var errLarge = fmt.Errorf("it is larger than %d MiB", maxLook>>20)

// readSome reads a regular file, and waits for no FIFO.
func readSome(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is no regular file", cdi.ErrNotSpecFile, path)
	case fi.Size() > maxLook:
		return nil, fmt.Errorf("%w: %s is larger than %d MiB", cdi.ErrNotSpecFile, path, maxLook>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxLook))
}

// errnoOf leaves out the path that an error of the system repeats.
func errnoOf(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// readNamed reads what the command line names: a file, stdin for "-", or a pipe
// such as the shell's <(command). A FIFO that nobody writes to is empty.
func (d *devices) readNamed(name string) (text []byte, err error) {
	if name == "-" {
		text, err = readAll(d.in)
	} else {
		var f *os.File
		if f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			defer f.Close()
			text, err = readAll(f)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, errnoOf(err))
	}
	return text, nil
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxLook+1))
	if err == nil && len(text) > maxLook {
		err = errLarge
	}
	return text, err
}

// inputError is cdiError of readNamed, with the code of what is no such input.
func inputError(err error, unfit claim.Code) error {
	if errors.Is(err, errLarge) || errors.Is(err, syscall.EISDIR) {
		return claim.Errorf(unfit, "%v", err)
	}
	return cdiError(err)
}

// specName is the name by which the library tells JSON from YAML. A file that
// is named otherwise, or stdin, is JSON if it looks like it.
func specName(name string, text []byte) string {
	switch filepath.Ext(name) {
	case ".json", ".yaml":
		return name
	}
	if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
		return name + ".json"
	}
	return name + ".yaml"
}

// readSpec reads one spec from a file, or from stdin for "-".
func (d *devices) readSpec(name string) (*cdi.Spec, error) {
	text, err := d.readNamed(name)
	if err != nil {
		return nil, inputError(err, codeSpec)
	}
	spec, err := parseSpec(name, text)
	return spec, cdiError(err)
}

// readSpecs reads specs, and makes one of several.
func (d *devices) readSpecs(names []string) (*cdi.Spec, error) {
	specs := make([]*cdi.Spec, len(names))
	for i, name := range names {
		var err error
		if specs[i], err = d.readSpec(name); err != nil {
			return nil, err
		}
	}
	if len(specs) == 1 {
		return specs[0], nil
	}
	merged, err := cdi.Merge(specs...)
	return merged, cdiError(err)
}

// parseSpec reads the text of a spec; errors name the file as it was given.
func parseSpec(name string, text []byte) (*cdi.Spec, error) {
	spec, err := cdi.Parse(specName(name, text), text)
	if problems, ok := errors.AsType[cdi.Problems](err); ok {
		for _, p := range problems {
			p.File = name
		}
	}
	return spec, err
}

// annotationsIn finds the annotations of an OCI configuration, of a Kubernetes
// object, or of a text that is nothing but annotations.
func annotationsIn(text []byte) (map[string]string, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	found := doc
	if meta, ok := doc["metadata"].(map[string]any); ok {
		found, _ = meta["annotations"].(map[string]any)
	} else if list, ok := doc["annotations"].(map[string]any); ok {
		found = list
	} else if _, config := doc["ociVersion"]; config {
		found = nil
	}
	annotations := map[string]string{}
	for key, value := range found {
		s, ok := value.(string)
		if !ok && strings.HasPrefix(key, cdi.AnnotationPrefix) {
			return nil, fmt.Errorf("%q is not a text", key)
		}
		annotations[key] = s
	}
	return annotations, nil
}
