package cdi

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

//go:embed testdata/cases
var archives embed.FS

// Case is one thing that an injector can be asked. It is read from a file of
// testdata/cases, whose format the README there describes.
type Case struct {
	Name     string   // of the file, without its ending
	About    string   // what the case shows
	Req      string   // ids of the rows of requirements.tsv that it proves
	Practice string   // where no row decides: who does it so
	Dirs     []string // spec directories below the case's own, lowest priority first
	Devices  []string // to be injected together
	Class    Class    // of the error that is expected; "" for none
	Refused  []string // devices each of which alone must be refused

	links  [][2]string // name and target
	fifos  []string
	files  []file
	config []byte
	wants  [][]byte
}

type file struct {
	name string
	data []byte
}

// Cases are all cases, by name.
func Cases() ([]*Case, error) {
	names, err := fs.Glob(archives, "testdata/cases/*.txtar")
	if err != nil {
		return nil, err
	}
	var cases []*Case
	for _, name := range names {
		text, err := archives.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := parse(strings.TrimSuffix(path.Base(name), ".txtar"), string(text))
		if err != nil {
			return nil, fmt.Errorf("read case %s: %w", name, err)
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// parse reads the text of one case: lines of a header, then each file below a
// line "-- NAME --".
func parse(name, text string) (*Case, error) {
	c := &Case{Name: name}
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		if name, end := strings.CutSuffix(name, " --"); ok && end {
			if !filepath.IsLocal(name) {
				return nil, fmt.Errorf("file %q is not below the case", name)
			}
			c.files = append(c.files, file{name: name})
			continue
		}
		if len(c.files) > 0 {
			last := &c.files[len(c.files)-1]
			last.data = append(last.data, line...)
			continue
		}
		if err := c.header(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	if len(c.Dirs) == 0 {
		c.Dirs = []string{"0"}
	}
	return c, c.sort()
}

// header takes up one line above the first file.
func (c *Case) header(line string) error {
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch key {
	case "Req":
		c.Req = value
	case "Practice":
		c.Practice = value
	case "Dirs":
		c.Dirs = strings.Fields(value)
	case "Inject":
		c.Devices = append(c.Devices, strings.Fields(value)...)
	case "Error":
		c.Class = Class(value)
	case "Refuse":
		c.Refused = append(c.Refused, strings.Fields(value)...)
	case "Fifo":
		c.fifos = append(c.fifos, value)
	case "Link":
		name, target, ok := strings.Cut(value, " -> ")
		if !ok {
			return fmt.Errorf("link %q is not of the form NAME -> TARGET", value)
		}
		c.links = append(c.links, [2]string{name, target})
	default:
		c.About = strings.TrimSpace(c.About + " " + line)
	}
	return nil
}

// sort takes the configuration and what is wanted out of the files.
func (c *Case) sort() error {
	var rest []file
	for _, f := range c.files {
		switch {
		case f.name == "config.json":
			c.config = f.data
		case strings.HasPrefix(f.name, "want"):
			c.wants = append(c.wants, f.data)
		default:
			rest = append(rest, f)
		}
	}
	c.files = rest
	switch {
	case c.config == nil:
		return fmt.Errorf("there is no config.json")
	case c.About == "" || c.Req == "" && c.Practice == "":
		return fmt.Errorf("the header does not say what it is about, and what decides (Req or Practice)")
	case (c.Class == "") == (c.wants == nil) && (c.wants != nil || c.Refused == nil):
		return fmt.Errorf("there must be either a want.json or an Error")
	}
	return nil
}

// write makes the case's files in dir, in which $CASE stands for dir.
func (c *Case) write(dir string) error {
	for _, f := range c.files {
		name := filepath.Join(dir, f.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, c.in(dir, f.data), 0o644); err != nil {
			return err
		}
	}
	for _, l := range c.links {
		if err := os.Symlink(l[1], filepath.Join(dir, l[0])); err != nil {
			return err
		}
	}
	for _, name := range c.fifos {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			return fmt.Errorf("make FIFO %s: %w", name, err)
		}
	}
	return nil
}

func (c *Case) in(dir string, data []byte) []byte {
	return []byte(strings.ReplaceAll(string(data), "$CASE", dir))
}
