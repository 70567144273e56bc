package objectstore

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkFsync is the measure for the others: one small durable write on the
// same disk.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateNew(b *testing.B) {
	s := openStore(b, storeDir(b))
	n := 0
	for b.Loop() {
		n++
		create(b, s, fmt.Sprintf("bucket-%d", n), BucketOptions{})
	}
}

func BenchmarkCreateAgain(b *testing.B) {
	s := openStore(b, storeDir(b))
	for b.Loop() {
		create(b, s, "bucket", BucketOptions{})
	}
}

func BenchmarkGrantNew(b *testing.B) {
	s := openStore(b, storeDir(b))
	create(b, s, "bucket", BucketOptions{})
	n := 0
	for b.Loop() {
		n++
		grant(b, s, GrantOptions{Bucket: "bucket", Name: fmt.Sprint("ba-", n)})
	}
}

// BenchmarkCreateNew16 and BenchmarkGrantNew16 are 16 callers at a time.
func BenchmarkCreateNew16(b *testing.B) {
	s := openStore(b, storeDir(b))
	sixteen(b, func(n int64) error {
		return s.CreateBucket(b.Context(), fmt.Sprintf("bucket-%d", n), BucketOptions{})
	})
}

func BenchmarkGrantNew16(b *testing.B) {
	s := openStore(b, storeDir(b))
	for i := range 16 {
		create(b, s, fmt.Sprintf("bucket-%d", i), BucketOptions{})
	}
	sixteen(b, func(n int64) error {
		_, err := s.Grant(b.Context(), GrantOptions{Bucket: fmt.Sprintf("bucket-%d", n%16), Name: fmt.Sprint("ba-", n)})
		return err
	})
}

// sixteen runs f from 16 goroutines, with a number of its own each time.
func sixteen(b *testing.B, f func(n int64) error) {
	var n atomic.Int64
	b.SetParallelism(max(1, 16/max(1, maxProcs())))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkPut4K16(b *testing.B) {
	s := openStore(b, storeDir(b))
	create(b, s, "bucket", BucketOptions{})
	c := client(grant(b, s, GrantOptions{Bucket: "bucket", Name: "a"}))
	body := strings.Repeat("x", 4096)
	sixteen(b, func(n int64) error { return put(b.Context(), c, "bucket", fmt.Sprintf("d%d/k%d", n%8, n), body) })
}

func maxProcs() int { return runtime.GOMAXPROCS(0) }
