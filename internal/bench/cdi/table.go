package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
)

// row is one figure of both libraries. One without a bar is there to explain
// another.
type row struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Ours   float64 `json:"fairlead"`
	Theirs float64 `json:"upstream,omitempty"` // 0 if it has none
	Bar    string  `json:"bar,omitempty"`
	Pass   *bool   `json:"pass,omitempty"`
}

// fraction is a bar: ours is at most one part in n of theirs.
func fraction(n float64) func(*row) {
	return func(r *row) { r.judge(fmt.Sprintf("≤ 1/%g", n), r.Ours*n <= r.Theirs) }
}

// atMost is a bar on our figure alone.
func atMost(v float64) func(*row) {
	return func(r *row) { r.judge(fmt.Sprintf("≤ %g %s", v, r.Unit), r.Ours <= v) }
}

func (r *row) judge(bar string, pass bool) { r.Bar, r.Pass = bar, &pass }

func (r *row) cells() []string {
	theirs, ratio, pass := "", "", ""
	if r.Theirs > 0 {
		theirs, ratio = number(r.Theirs)+" "+r.Unit, "1/"+number(r.Theirs/r.Ours)
	}
	if r.Pass != nil {
		pass = map[bool]string{true: "pass", false: "MISS"}[*r.Pass]
	}
	return []string{r.Name, number(r.Ours) + " " + r.Unit, theirs, ratio, r.Bar, pass}
}

var heads = []string{"what", ours, theirs, "ratio", "bar", ""}

func printText(w io.Writer, rows []row) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	for i := range rows {
		fmt.Fprintln(tw, strings.Join(rows[i].cells(), "\t"))
	}
	return tw.Flush()
}

func printMarkdown(w io.Writer, rows []row) error {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heads)
	line([]string{"---", "---", "---", "---", "---", "---"})
	for i := range rows {
		line(rows[i].cells())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// number prints three digits that matter.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// machine says what the figures are taken on, and how busy it was before.
func machine() string {
	model := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d × %s, %s; load before the run %s.", runtime.NumCPU(), model, runtime.Version(), before)
}
