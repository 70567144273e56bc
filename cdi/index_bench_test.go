package cdi

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// manySpecs fills a directory with large specs of n kinds.
func manySpecs(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	for i := range n {
		must(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("vendor%d.json", i)), largeSpec(fmt.Sprintf("vendor%d.com/class", i)), 0o644))
	}
	age(b, filepath.Join(dir, fmt.Sprintf("vendor%d.json", n-1)))
	return dir
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perOp reports the processor time of a benchmark, which other load on the
// machine changes little.
func perOp(b *testing.B, run func()) {
	b.ReportAllocs()
	begin := cpuTime()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(cpuTime()-begin)/float64(b.N), "cpu-ns/op")
}

func BenchmarkIndexCold(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := manySpecs(b, n)
			perOp(b, func() {
				if got := len(NewIndex([]string{dir}).Snapshot().Specs()); got != n {
					b.Fatal(got)
				}
			})
		})
	}
}

// BenchmarkIndexState is a process that begins with a valid state and wants one
// device.
func BenchmarkIndexState(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir, state := manySpecs(b, n), filepath.Join(b.TempDir(), "state")
			NewIndex([]string{dir}, WithState(state)).Snapshot()
			perOp(b, func() {
				if _, err := NewIndex([]string{dir}, WithState(state)).Resolve("vendor7.com/class=1"); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// BenchmarkIndexChange is one changed file among many, and 50.
func BenchmarkIndexChange(b *testing.B) {
	for _, c := range []struct{ n, changed int }{{10000, 1}, {1000, 50}} {
		b.Run(fmt.Sprintf("%d-of-%d", c.changed, c.n), func(b *testing.B) {
			dir := manySpecs(b, c.n)
			x := NewIndex([]string{dir})
			x.Snapshot()
			names := map[string]bool{}
			for i := range c.changed {
				names[fmt.Sprintf("vendor%d.json", i)] = true
			}
			perOp(b, func() { x.refreshFiles(map[int]map[string]bool{0: names}) })
		})
	}
}

// BenchmarkIndexMemory reports the bytes that an index of 10,000 specs holds.
func BenchmarkIndexMemory(b *testing.B) {
	dir := manySpecs(b, 10000)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		x := NewIndex([]string{dir})
		x.Snapshot()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(x)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "held-bytes")
}

func BenchmarkResolve(b *testing.B) {
	dir := manySpecs(b, 1000)
	x := NewIndex([]string{dir})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Resolve("vendor7.com/class=1"); err != nil {
			b.Fatal(err)
		}
	}
}
