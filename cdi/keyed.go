package cdi

// keyed is a list in which a later value takes the place of an earlier one with
// the same key: the earlier goes, the later stands at the end.
type keyed[T any] struct {
	items []T
	key   func(*T) string
	// at finds the last item of each key; nil while the list is short enough to
	// be searched.
	at   map[string]int
	dead []bool // by index; nil while none is
}

// searched is the length up to which looking at all beats a map.
const searched = 24

// newKeyed begins with a copy of have and makes room for more.
func newKeyed[T any](have []T, more int, key func(*T) string) *keyed[T] {
	k := &keyed[T]{key: key, items: append(make([]T, 0, len(have)+more), have...)}
	if len(have)+more > searched {
		k.at = make(map[string]int, len(have)+more)
		for i := range k.items {
			k.at[key(&k.items[i])] = i
		}
	}
	return k
}

// put appends v and reports whether it takes the place of another.
func (k *keyed[T]) put(v T) (replaces bool) {
	last := len(k.items)
	k.items = append(k.items, v)
	name := k.key(&k.items[last]) // a pointer to v itself would cost an allocation
	i := k.find(name, last)
	if i >= 0 {
		if k.dead == nil {
			k.dead = make([]bool, cap(k.items))
		}
		k.dead[i] = true
	}
	if k.at != nil {
		k.at[name] = last
	}
	return i >= 0
}

// find is the last of the first n items with that key, or -1. The last is the one
// that counts: those before it are dead, or were a list's own from the start.
func (k *keyed[T]) find(name string, n int) int {
	if k.at != nil {
		if i, ok := k.at[name]; ok {
			return i
		}
		return -1
	}
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
