package cdi

// slab hands out values and lists from larger pieces of memory: a spec has
// hundreds of small ones, and each piece costs one allocation.
type slab[T any] struct{ free []T }

// one returns a new zero value.
func (s *slab[T]) one() *T {
	s.room(1)
	s.free = s.free[:len(s.free)+1]
	v := &s.free[len(s.free)-1]
	clear(s.free[len(s.free)-1:]) // it may have been used before a reset
	return v
}

// list returns a copy of values, which nothing can be appended to in place.
func (s *slab[T]) list(values []T) []T {
	if len(values) == 0 {
		return nil
	}
	s.room(len(values))
	begin := len(s.free)
	s.free = append(s.free, values...)
	return s.free[begin:len(s.free):len(s.free)]
}

// room makes place for n more, in a new piece if need be; what was handed out of
// the older pieces stays where it is.
func (s *slab[T]) room(n int) {
	if cap(s.free)-len(s.free) < n {
		s.free = make([]T, 0, max(n, min(2*cap(s.free), 1024), 8))
	}
}

// reset takes back all that was handed out.
func (s *slab[T]) reset() { s.free = s.free[:0] }

// arena is the memory of one spec, or of one after the other.
type arena struct {
	strings slab[string]
	gids    slab[uint32]
	nums    slab[uint32]
	ints    slab[int]
	devices slab[Device]
	nodes   objects[DeviceNode]
	mounts  objects[Mount]
	hooks   objects[Hook]
	nets    objects[NetDevice]
}

// objects are values with the lists that point to them. list is what is being
// read: no list of a kind is ever inside of another.
type objects[T any] struct {
	values   slab[T]
	pointers slab[*T]
	list     []*T
}

func (o *objects[T]) reset() {
	o.values.reset()
	o.pointers.reset()
}

func (a *arena) reset() {
	a.strings.reset()
	a.gids.reset()
	a.nums.reset()
	a.ints.reset()
	a.devices.reset()
	a.nodes.reset()
	a.mounts.reset()
	a.hooks.reset()
	a.nets.reset()
}
