package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// table is the result of a run.
type table struct {
	Machine string `json:"machine"`
	Rows    []row  `json:"rows"`
}

// row is one figure. One without a bar is a reference, or there to explain
// another.
type row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Ratio is Value to the value of the row named Of.
	Ratio float64 `json:"ratio,omitempty"`
	Of    string  `json:"of,omitempty"`
	Bar   string  `json:"bar,omitempty"`
	Pass  *bool   `json:"pass,omitempty"`
}

// add puts a row into the table; options set its ratio and its bar.
func (t *table) add(name string, value float64, unit string, options ...func(*table, *row)) {
	r := row{Name: name, Value: value, Unit: unit}
	for _, o := range options {
		o(t, &r)
	}
	t.Rows = append(t.Rows, r)
}

// of makes the row a ratio of an earlier one in the same unit.
func of(name string) func(*table, *row) {
	return func(t *table, r *row) {
		for _, other := range t.Rows {
			if other.Name == name {
				r.Of, r.Ratio = name, r.Value/other.Value
			}
		}
	}
}

// atMost and atLeast are bars: on the ratio where the row has one, else on the
// value.
func atMost(bar float64) func(*table, *row) {
	return func(_ *table, r *row) { r.judge("≤", bar, r.judged() <= bar) }
}

func atLeast(bar float64) func(*table, *row) {
	return func(_ *table, r *row) { r.judge("≥", bar, r.judged() >= bar) }
}

func (r *row) judged() float64 {
	if r.Of != "" {
		return r.Ratio
	}
	return r.Value
}

func (r *row) judge(sign string, bar float64, pass bool) {
	unit := " " + r.Unit
	if r.Of != "" {
		unit = " ×"
	}
	r.Bar, r.Pass = fmt.Sprintf("%s %g%s", sign, bar, unit), &pass
}

// cells are the row for a person.
func (r *row) cells() []string {
	ratio, pass := "", ""
	if r.Of != "" {
		ratio = fmt.Sprintf("%.2f × %s", r.Ratio, r.Of)
	}
	if r.Pass != nil {
		pass = map[bool]string{true: "pass", false: "MISS"}[*r.Pass]
	}
	return []string{r.Name, number(r.Value) + " " + r.Unit, ratio, r.Bar, pass}
}

var heads = []string{"what", "figure", "ratio", "bar", ""}

func (t *table) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	for i := range t.Rows {
		fmt.Fprintln(tw, strings.Join(t.Rows[i].cells(), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+t.Machine)
	return err
}

func (t *table) markdown(w io.Writer) error {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(heads)
	line(slices.Repeat([]string{"---"}, len(heads)))
	for i := range t.Rows {
		line(t.Rows[i].cells())
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", b.String(), t.Machine)
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

// samples are durations of one thing.
type samples []time.Duration

// time adds how long fn took.
func (s *samples) time(fn func() error) error {
	begin := time.Now()
	err := fn()
	*s = append(*s, time.Since(begin))
	return err
}

// p50 is the median, in milliseconds.
func (s samples) p50() float64 { return milliseconds(median(s)) }

func median[T cmp.Ordered](list []T) T {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// machine says what the figures are taken on, and how busy it was before.
func machine(disk string) string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(text) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
				model = string(bytes.TrimSpace(value))
				break
			}
		}
	}
	kernel := ""
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	fs := "another file system"
	var st unix.Statfs_t
	if unix.Statfs(disk, &st) == nil {
		names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs (no disk: durable figures mean nothing)"}
		if name, ok := names[int64(st.Type)]; ok {
			fs = name
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d × %s, Linux %s, %s, %s; load before the run %s.", runtime.NumCPU(), model, kernel, fs, runtime.Version(), before)
}
