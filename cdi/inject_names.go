package cdi

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// names are those of the values of a list in which a later value takes the place
// of an earlier one with the same name: the earlier is dead, the later stands at
// the end. Its memory is used for one list after the other.
type names struct {
	list []string
	dead []bool // by index
	gone int    // how many are dead
	// table finds the last value with a name by its hash: an index plus one, or 0.
	// It is empty while the list is short enough to be searched, and larger than
	// the list will ever be. A map would hold each name again.
	table []int32
}

var namesSeed = maphash.MakeSeed()

// searched is the length up to which looking at all beats a table.
const searched = 16

// begin makes place for as many names as there will be at most.
func (n *names) begin(size int) {
	clear(n.list)
	n.list, n.gone = slices.Grow(n.list[:0], size), 0
	n.dead = slices.Grow(n.dead[:0], size)[:size]
	clear(n.dead)
	slots := 0
	if size > searched {
		slots = 1 << bits.Len(uint(size+size/2))
	}
	n.table = slices.Grow(n.table[:0], slots)[:slots]
	clear(n.table)
}

// have appends a name that the list has had before: its own doubles are none of
// our business.
func (n *names) have(name string) {
	n.list = append(n.list, name)
	if len(n.table) > 0 {
		*n.slot(name) = int32(len(n.list))
	}
}

// put appends a name and reports whether it takes the place of another.
func (n *names) put(name string) (replaces bool) {
	before := -1
	if len(n.table) == 0 {
		before = n.search(name)
	} else {
		before = int(*n.slot(name)) - 1
	}
	n.have(name)
	if before >= 0 {
		n.dead[before] = true
		n.gone++
	}
	return before >= 0
}

// bury makes all values with that name dead among the first so many.
func (n *names) bury(name string, first int) {
	for i, other := range n.list[:first] {
		if other == name && !n.dead[i] {
			n.dead[i] = true
			n.gone++
		}
	}
}

// slot is where the table has the last value of that name, or is to have it.
func (n *names) slot(name string) *int32 {
	mask := len(n.table) - 1
	for i := int(maphash.String(namesSeed, name)) & mask; ; i = (i + 1) & mask {
		if at := &n.table[i]; *at == 0 || n.list[*at-1] == name {
			return at
		}
	}
}

// search is the last value with that name, or -1. The last is the one that
// counts: those before it are dead, or were the list's own from the start.
func (n *names) search(name string) int {
	for i := len(n.list) - 1; i >= 0; i-- {
		if n.list[i] == name {
			return i
		}
	}
	return -1
}

// living are the values that are not dead, in the same memory.
func living[T any](n *names, values []T) []T {
	if n.gone == 0 {
		return values
	}
	left := values[:0]
	for i, v := range values {
		if !n.dead[i] {
			left = append(left, v)
		}
	}
	clear(values[len(left):])
	return left
}
