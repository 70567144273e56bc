package ldcache

import (
	"fmt"
	"strings"
)

// Directive is one line of ld.so.conf that says something.
type Directive struct {
	Dir     string   // a directory, as it is written; or
	Include []string // patterns of further files to read
}

// MaxConf is how many bytes a configuration file may have; real ones have less
// than a thousand.
const MaxConf = 1 << 20

// ParseConf reads a configuration file. Comments and hwcap lines, which no
// dynamic linker honours any more, are left out.
func ParseConf(data []byte) ([]Directive, error) {
	if len(data) > MaxConf {
		return nil, fmt.Errorf("it has more than %d bytes", MaxConf)
	}
	var directives []Directive
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "#")
		line, _, _ = strings.Cut(line, "\x00")
		line = strings.Trim(line, space)
		word, rest := splitWord(line)
		switch {
		case line == "", strings.EqualFold(word, "hwcap") && rest != "":
		case word == "include" && rest != "":
			directives = append(directives, Directive{Include: strings.FieldsFunc(rest, isBlank)})
		default:
			dir, _, _ := strings.Cut(line, "=") // the type of its libraries, which no dynamic linker honours any more
			if dir = strings.TrimRight(strings.TrimRight(dir, space), "/"); dir != "" {
				directives = append(directives, Directive{Dir: dir})
			}
		}
	}
	return directives, nil
}

const space = " \t\v\f\r"

func isBlank(r rune) bool { return r == ' ' || r == '\t' }

// splitWord splits a line at its first blank; rest is empty where there is none
// or nothing follows.
func splitWord(line string) (word, rest string) {
	if i := strings.IndexFunc(line, isBlank); i >= 0 {
		return line[:i], strings.TrimLeft(line[i:], " \t")
	}
	return line, ""
}
