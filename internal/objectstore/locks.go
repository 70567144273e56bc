package objectstore

import "sync"

// keyedLocks are read-write locks by name, which exist while they are used.
// The zero value is ready.
type keyedLocks struct {
	mu sync.Mutex
	m  map[string]*keyedLock
}

type keyedLock struct {
	sync.RWMutex
	users int
}

// lock holds the name alone until the function it returns is called.
func (k *keyedLocks) lock(name string) (unlock func()) {
	l := k.take(name)
	l.Lock()
	return func() { l.Unlock(); k.drop(name, l) }
}

// rlock holds the name together with other readers.
func (k *keyedLocks) rlock(name string) (unlock func()) {
	l := k.take(name)
	l.RLock()
	return func() { l.RUnlock(); k.drop(name, l) }
}

func (k *keyedLocks) take(name string) *keyedLock {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[string]*keyedLock{}
	}
	l := k.m[name]
	if l == nil {
		l = &keyedLock{}
		k.m[name] = l
	}
	l.users++
	return l
}

func (k *keyedLocks) drop(name string, l *keyedLock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(k.m, name)
	}
}

// gate counts the requests that write to a bucket, so that deleting it can
// wait for them and keep new ones out. The zero value is open.
type gate struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	drained chan struct{} // made by close, closed once nobody is inside
}

// enter reports whether the gate is open; if so the caller must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.closed && g.inside == 0 {
		close(g.drained)
	}
}

// close keeps everyone out and returns a channel that is closed once those
// inside have left.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.drained = make(chan struct{})
	if g.inside == 0 {
		close(g.drained)
	}
	return g.drained
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}
