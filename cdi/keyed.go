package cdi

import (
	"hash/maphash"
	"math/bits"
)

// keyed is a list in which a later value takes the place of an earlier one with
// the same key: the earlier goes, the later stands at the end.
type keyed[T any] struct {
	items []T
	key   func(*T) string
	// table finds the last item of each key by its hash: an index plus one, or 0,
	// with others of the same hash behind it. It is nil while the list is short
	// enough to be searched, and larger than the list will ever be. A map would
	// hold each key again.
	table []int32
	dead  []bool // by index; nil while none is
}

var keySeed = maphash.MakeSeed()

// searched is the length up to which looking at all beats a map.
const searched = 24

// newKeyed begins with a copy of have and makes room for more. It is small enough
// to be inlined, so that what it returns needs no allocation.
func newKeyed[T any](have []T, more int, key func(*T) string) *keyed[T] {
	k := &keyed[T]{key: key}
	k.begin(have, len(have)+more)
	return k
}

func (k *keyed[T]) begin(have []T, n int) {
	k.items = append(make([]T, 0, n), have...)
	if n <= searched {
		return
	}
	k.table = make([]int32, 1<<bits.Len(uint(n+n/2)))
	for i := range k.items {
		*k.slot(k.key(&k.items[i])) = int32(i + 1)
	}
}

// put appends v and reports whether it takes the place of another.
func (k *keyed[T]) put(v T) (replaces bool) {
	last := len(k.items)
	k.items = append(k.items, v)
	name := k.key(&k.items[last]) // a pointer to v itself would cost an allocation
	i := -1
	if k.table == nil {
		i = k.search(name, last)
	} else {
		at := k.slot(name)
		i, *at = int(*at)-1, int32(last+1)
	}
	if i >= 0 {
		if k.dead == nil {
			k.dead = make([]bool, cap(k.items))
		}
		k.dead[i] = true
	}
	return i >= 0
}

// slot is where the table has the last item of that key, or is to have it.
func (k *keyed[T]) slot(name string) *int32 {
	mask := len(k.table) - 1
	for i := int(maphash.String(keySeed, name)) & mask; ; i = (i + 1) & mask {
		if at := &k.table[i]; *at == 0 || k.key(&k.items[*at-1]) == name {
			return at
		}
	}
}

// search is the last of the first n items with that key, or -1. The last is the
// one that counts: those before it are dead, or were a list's own from the start.
func (k *keyed[T]) search(name string, n int) int {
	for i := n - 1; i >= 0; i-- {
		if k.key(&k.items[i]) == name {
			return i
		}
	}
	return -1
}

// list is what is left.
func (k *keyed[T]) list() []T {
	if len(k.dead) == 0 {
		return k.items
	}
	left := k.items[:0]
	for i, v := range k.items {
		if !k.dead[i] {
			left = append(left, v)
		}
	}
	clear(k.items[len(left):])
	return left
}
