package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run TestDocCommandsPage .

// The page of commands is made of the commands themselves.
func TestDocCommandsPage(t *testing.T) {
	// The page is root's, whoever makes it.
	a := newApp(nil, nil, nil, func(string) string { return "" })
	a.places = findPlaces(0, a.getenv)
	a.socket = a.places.Socket
	root := newRoot(a)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	b.WriteString("# Commands\n\nMade by `go generate ./cmd/fairlead` from what `--help` says; do not edit it.\n")
	b.WriteString("Defaults are root's; for others see [environment](environment.md).\n")
	commandPage(&b, root)
	file := filepath.Join(docsRoot, "docs/reference/commands.md")
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if docText(t, "docs/reference/commands.md") != b.String() {
		t.Error("docs/reference/commands.md is out of date: go generate ./cmd/fairlead")
	}
}

func commandPage(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Name() != "completion" || !cmd.HasParent() { // cobra's own words stay out
		fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```\n%s\n```\n", cmd.CommandPath(), cmd.Short, or(cmd.Long, cmd.Short))
		if cmd.Runnable() && !cmd.HasSubCommands() {
			fmt.Fprintf(b, "\n```\n%s\n```\n", cmd.UseLine())
		}
		if cmd.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", regexp.MustCompile(`(?m)^  `).ReplaceAllString(cmd.Example, ""))
		}
		flagTable(b, cmd.LocalFlags())
	} else {
		fmt.Fprintf(b, "\n## %s\n\nPrint a completion script: `%s bash`, `fish`, `powershell` or `zsh`.\n", cmd.CommandPath(), cmd.CommandPath())
		return
	}
	for _, child := range documented(cmd) {
		commandPage(b, child)
	}
}

func flagTable(b *strings.Builder, flags *pflag.FlagSet) {
	var rows strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		kind, text := pflag.UnquoteUsage(f)
		value := f.DefValue
		if value == "[]" || value == "false" || value == "0s" {
			value = ""
		}
		cell := strings.NewReplacer("|", `\|`)
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", name, cell.Replace(kind), cell.Replace(value), cell.Replace(text))
	})
	if rows.Len() > 0 {
		fmt.Fprintf(b, "\n| flag | | default | |\n|---|---|---|---|\n%s", rows.String())
	}
}
