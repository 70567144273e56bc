package cosi

import (
	"context"
	"sync"
)

// bucketQueue lets one call at a time through per bucket (COSI-077). The zero
// value is ready.
type bucketQueue struct {
	mu      sync.Mutex
	turns   map[string]*turn
	aliases map[string]string // bucket id -> the name that it was created by
}

type turn struct {
	taken chan struct{} // holds one token while a call is in flight
	users int           // calls in flight and waiting; the last one removes the turn
}

// enter waits until no other call for key is in flight, and returns what ends
// this call's turn; or ctx's error.
func (q *bucketQueue) enter(ctx context.Context, key string) (leave func(), err error) {
	q.mu.Lock()
	if name, ok := q.aliases[key]; ok {
		key = name
	}
	t := q.turns[key]
	if t == nil {
		if q.turns == nil {
			q.turns = map[string]*turn{}
		}
		t = &turn{taken: make(chan struct{}, 1)}
		q.turns[key] = t
	}
	t.users++
	q.mu.Unlock()

	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; q.drop(key, t) }, nil
	case <-ctx.Done():
		q.drop(key, t)
		return nil, ctx.Err()
	}
}

func (q *bucketQueue) drop(key string, t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(q.turns, key)
	}
}

// learn remembers that the bucket created as name has that id, so that calls by
// either wait for each other.
func (q *bucketQueue) learn(id, name string) {
	if id == name {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aliases == nil {
		q.aliases = map[string]string{}
	}
	q.aliases[id] = name
}

// forget is learn's opposite, for a deleted bucket.
func (q *bucketQueue) forget(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.aliases, id)
}
