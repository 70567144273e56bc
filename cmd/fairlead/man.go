package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan writes the man pages of all verbs. The pages are made from the same
// words as --help, so that the two cannot differ.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the man pages into a directory",
		Long:    "Write one page for each verb into a directory, such as docs/man or\n/usr/local/share/man/man1.",
		Example: "  fairlead man docs/man",
		Hidden:  true,
		Args:    args(1, 1, "a DIRECTORY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			root := cmd.Root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			return writePages(args[0], root)
		},
	}
}

func writePages(dir string, cmd *cobra.Command) error {
	var b bytes.Buffer
	page(&b, cmd)
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write man page: %w", err)
	}
	for _, c := range documented(cmd) {
		if err := writePages(dir, c); err != nil {
			return err
		}
	}
	return nil
}

// documented are the children that a person should know of.
func documented(cmd *cobra.Command) (children []*cobra.Command) {
	for _, c := range cmd.Commands() {
		if !c.Hidden && c.Name() != "help" {
			children = append(children, c)
		}
	}
	return children
}

// page writes one man page. It has no date: the same program writes the same.
func page(w io.Writer, cmd *cobra.Command) {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	out := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	out(`.TH "%s" 1 "" "fairlead" "Fairlead"`, strings.ToUpper(roff(name)))
	out(".SH NAME\n%s \\- %s", roff(name), roff(cmd.Short))
	out(".SH SYNOPSIS\n.B %s", roff(cmd.UseLine()))
	out(".SH DESCRIPTION")
	text(w, or(cmd.Long, cmd.Short))
	if cmd.Example != "" {
		out(".SH EXAMPLES\n.nf\n%s\n.fi", roff(cmd.Example))
	}
	flags(w, "OPTIONS", cmd.NonInheritedFlags())
	flags(w, "COMMON OPTIONS", cmd.InheritedFlags())
	if children := documented(cmd); len(children) > 0 {
		out(".SH COMMANDS")
		for _, c := range children {
			out(".TP\n.B %s\n%s", roff(c.Name()), roff(c.Short))
		}
	}
	if p := cmd.Parent(); p != nil {
		out(".SH SEE ALSO\n.BR %s (1)", roff(strings.ReplaceAll(p.CommandPath(), " ", "-")))
	}
}

// text writes paragraphs; indented lines keep their shape.
func text(w io.Writer, s string) {
	literal := false
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, " "); indented != literal && line != "" {
			_, _ = fmt.Fprintln(w, map[bool]string{true: ".nf", false: ".fi"}[indented])
			literal = indented
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		_, _ = fmt.Fprintln(w, line)
	}
	if literal {
		_, _ = fmt.Fprintln(w, ".fi")
	}
}

func flags(w io.Writer, title string, set *pflag.FlagSet) {
	if !set.HasAvailableFlags() {
		return
	}
	_, _ = fmt.Fprintf(w, ".SH %s\n", title)
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind, _ := pflag.UnquoteUsage(f); kind != "" {
			name += " " + kind
		}
		_, _ = fmt.Fprintf(w, ".TP\n.B %s\n%s\n", roff(name), roff(f.Usage))
	})
}

// roff escapes what troff would read as more than text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
