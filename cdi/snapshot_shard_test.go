package cdi

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestShard: whatever comes and goes, the table finds what is there and nothing
// else. The hashes are few, so that entries stand in each other's way and wrap
// around the end.
func TestShard(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s shard
		there := map[entry]bool{}
		var entries []entry
		for i := range 40 {
			f := &file{name: fmt.Sprint(i), kind: fmt.Sprint("v.com/", i%7), devices: []string{"a", "b"}}
			for device := range uint32(2) {
				entries = append(entries, entry{f, device, uint32(i%7) * 5 % 11 * uint32(len(entries)%2+1)})
			}
		}
		for i := range entries { // one hash for each key
			for j := range i {
				if entries[j].key() == entries[i].key() {
					entries[i].hash = entries[j].hash
				}
			}
		}
		for range 300 {
			e := entries[random.IntN(len(entries))]
			if there[e] {
				s.drop(e)
				delete(there, e)
			} else {
				s.add(e)
				there[e] = true
			}
		}
		checkShard(t, &s, entries, there)
	}
}

func checkShard(t *testing.T, s *shard, entries []entry, there map[entry]bool) {
	t.Helper()
	want := map[deviceKey]int{}
	for e := range there {
		want[e.key()]++
	}
	for _, e := range entries {
		if got := len(s.find(e.key(), e.hash).files()); got != want[e.key()] {
			t.Fatalf("%v is found %d times, want %d", e.key(), got, want[e.key()])
		}
	}
	seen := 0
	for key, found := range s.all {
		if seen++; len(found.files()) != want[key] {
			t.Fatalf("%v has %d files, want %d", key, len(found.files()), want[key])
		}
	}
	if seen != len(want) || s.used != len(there) {
		t.Fatalf("%d devices of %d, %d entries of %d", seen, len(want), s.used, len(there))
	}
}

// BenchmarkUnknown is who waits for a device among many, and looks it up again
// and again.
func BenchmarkUnknown(b *testing.B) {
	x := NewIndex([]string{manySpecs(b, 1000)})
	x.Snapshot()
	perOp(b, func() {
		if _, err := x.Resolve("vendor7.com/class=unknown"); err == nil {
			b.Fatal("found")
		}
	})
}
