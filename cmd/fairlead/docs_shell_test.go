package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Every command line of ours in a block is one that the program understands:
// the verb, its flags, the number of its arguments. Those in running text may
// leave things out.
func TestDocCommandLines(t *testing.T) {
	pages := docPages(t)
	t.Chdir(docsRoot) // templates are read when flags are
	seen := 0
	for name, page := range pages {
		for _, b := range docBlocks(page) {
			for _, line := range shellLines(b) {
				for _, words := range fairleadCommands(line) {
					seen++
					if err := understood(words); err != nil {
						t.Errorf("%s, block at line %d: fairlead %s: %v", name, b.line, strings.Join(words, " "), err)
					}
				}
			}
		}
		for _, m := range regexp.MustCompile("`(fairlead [a-z][^`]*)`").FindAllStringSubmatch(prose(page), -1) {
			for _, words := range fairleadCommands(m[1]) {
				if err := flagsKnown(words); err != nil {
					t.Errorf("%s: %s: %v", name, m[1], err)
				}
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d command lines were found: the test looks in the wrong place", seen)
	}
}

// shellLines are a block's command lines, those that go on joined.
func shellLines(b block) (lines []string) {
	text := b.text
	switch b.language {
	case "sh":
	case "console":
		text = ""
		more := false
		for line := range strings.Lines(b.text) {
			command, begins := strings.CutPrefix(line, "$ ")
			if !begins && !more {
				continue
			}
			text += command
			more = strings.HasSuffix(command, "\\\n") || strings.Count(text, "'")%2 == 1
		}
	default:
		return nil
	}
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// fairleadCommands finds the arguments of each call of ours in a line of shell.
func fairleadCommands(line string) (commands [][]string) {
	line = strings.NewReplacer(`"$(`, " ; ", `)"`, " ; ").Replace(line)
	var current []string
	inside, begins := false, true
	end := func() {
		if inside {
			commands = append(commands, current)
		}
		inside, begins, current = false, true, nil
	}
	for _, w := range shellWords(line) {
		switch {
		case slices.Contains([]string{";", "|", "&", "&&", "||", "<", ">", ">>", "2>/dev/null"}, w):
			end()
		case inside:
			current = append(current, w)
		case begins && w == "fairlead":
			inside = true
		case !regexp.MustCompile(`^[A-Z_]+=`).MatchString(w):
			begins = false
		}
	}
	end()
	return commands
}

// shellWords splits as a shell does, as far as the documentation needs it.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	open := false
	flush := func() {
		if open {
			words = append(words, word.String())
			word.Reset()
			open = false
		}
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == '#' && !open:
			return words
		case quote == 0 && unicode.IsSpace(r):
			flush()
		case quote == 0 && r == ';':
			flush()
			words = append(words, ";")
		default:
			word.WriteRune(r)
			open = true
		}
	}
	flush()
	return words
}

func understood(words []string) error {
	root := newRoot(newApp(strings.NewReader(""), new(strings.Builder), new(strings.Builder), func(string) string { return "" }))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd.Name() == "help" {
		_, _, err := root.Find(rest)
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func flagsKnown(words []string) error {
	root := newRoot(newApp(strings.NewReader(""), new(strings.Builder), new(strings.Builder), func(string) string { return "" }))
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	for _, w := range rest {
		name, isFlag := strings.CutPrefix(w, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && name != "help" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("there is no flag --%s", name)
		}
		if w == "--" {
			break
		}
	}
	return nil
}
