package plugin

import (
	"context"
	"sync"
)

// Locks holds at most one lock per key and never waits for one: a second call
// for the same object is refused, an unrelated one goes on (COSI-105). A key
// that is not held costs no memory. The zero value is ready.
type Locks struct {
	mu   sync.Mutex
	held map[string]struct{}
	idle chan struct{} // closed when held becomes empty; nil if nobody waits
}

// TryLock takes the lock of key and reports whether it was free.
func (l *Locks) TryLock(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.held[key]; taken {
		return false
	}
	if l.held == nil {
		l.held = map[string]struct{}{}
	}
	l.held[key] = struct{}{}
	return true
}

// Unlock frees key. To free what is not held is a defect, and panics.
func (l *Locks) Unlock(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.held[key]; !taken {
		panic("plugin: unlock of a key that is not held")
	}
	delete(l.held, key)
	if len(l.held) == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// Drain waits until no key is held, or returns ctx's error.
func (l *Locks) Drain(ctx context.Context) error {
	l.mu.Lock()
	if len(l.held) == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
