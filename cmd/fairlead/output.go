package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/internal/claim"
)

// listing is something to show: as a table, as names, or as the value itself.
type listing struct {
	columns []string // of the table
	wide    []string // further columns of -o wide
	rows    []row
	value   any // what JSON and YAML print
	empty   string
}

type row struct {
	name  string // as -o name prints it: bucket/photos
	cells []string
	wide  []string
}

// output is the flag -o of a verb.
type output struct {
	format string
	words  []string
}

// listFormats are the formats of everything that lists.
func listFormats() []string { return []string{"table", "wide", "json", "yaml", "name"} }

// addTo gives cmd the flag -o with these words, the first of them by default.
func (o *output) addTo(cmd *cobra.Command, words ...string) {
	o.words, o.format = words, words[0]
	cmd.Flags().VarP(choice{&o.format, words}, "output", "o", "how to print")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// list prints l on stdout; that there is nothing is talk, for stderr.
func (a *app) list(o output, l listing) error {
	switch o.format {
	case "json", "yaml":
		return a.value(o.format, l.value)
	case "name":
		for _, r := range l.rows {
			if _, err := fmt.Fprintln(a.out, r.name); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		return nil
	}
	if len(l.rows) == 0 && l.empty != "" {
		a.say("%s", l.empty)
		return nil
	}
	return printTable(a.out, l, o.format == "wide")
}

func printTable(w io.Writer, l listing, wide bool) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(cells, more []string) {
		if wide {
			cells = append(cells[:len(cells):len(cells)], more...)
		}
		_, _ = fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	line(l.columns, l.wide)
	for _, r := range l.rows {
		line(r.cells, r.wide)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// value prints v as JSON or YAML. YAML is made from the JSON, so that both
// have the same fields in the same order.
func (a *app) value(format string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	text := b.Bytes()
	if format == "yaml" {
		var err error
		if text, err = yamlOf(text); err != nil {
			return fmt.Errorf("encode as YAML: %w", err)
		}
	}
	if _, err := a.out.Write(text); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// yamlOf writes JSON, which is YAML, in the style that people know.
func yamlOf(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	blockStyle(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func blockStyle(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		blockStyle(child)
	}
}

// say tells a person something, on stderr.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, format+"\n", args...)
}

// print writes data, on stdout.
func (a *app) print(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.out, format+"\n", args...); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// age says how long ago t was, as one number: 5s, 12m, 3h, 40d.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return short(a.now().Sub(t))
}

func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// dash stands for what is not there.
func dash(s string) string { return or(s, "-") }

// modeOf spells out the zero value.
func modeOf(m claim.Mode) string { return or(string(m), string(claim.ModeReadWrite)) }
