package plugin_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/internal/plugin"
)

// Req: COSI-105
func TestLocks(t *testing.T) {
	var l plugin.Locks
	if !l.TryLock("a") || !l.TryLock("b") {
		t.Fatal("a free key is refused")
	}
	if l.TryLock("a") {
		t.Fatal("a held key is given")
	}
	l.Unlock("a")
	if !l.TryLock("a") {
		t.Fatal("a freed key is refused")
	}
	defer func() {
		if recover() == nil {
			t.Error("unlock of a free key goes unnoticed")
		}
	}()
	l.Unlock("c")
}

func TestLocksDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l plugin.Locks
		if err := l.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.TryLock("a")
		l.TryLock("b")
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain of held locks: %v", err)
		}
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- l.Drain(t.Context()) }()
		}
		synctest.Wait()
		l.Unlock("a")
		synctest.Wait()
		if len(done) != 0 {
			t.Error("drained while b is held")
		}
		l.Unlock("b")
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}
