package objectstore

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"sync"
	"time"
)

// ids makes the ids of accounts, which are their access keys too: 20 letters and
// digits as AWS has them, never the same twice. They grow with time, so that new
// records stand together on the database's pages, and callers who are granted
// access at the same time share the pages that are written. The zero value is
// ready.
type ids struct {
	mu   sync.Mutex
	last int64
}

// next is the id of an account made now.
func (g *ids) next(now time.Time) string {
	g.mu.Lock()
	g.last = max(g.last+1, now.UnixMicro()>>4) // 48 bits are enough until 2112
	stamp := g.last
	g.mu.Unlock()
	var id [10]byte
	binary.BigEndian.PutUint64(id[:8], uint64(stamp)<<16)
	rand.Read(id[6:]) // never fails
	return "FLAK" + base32.HexEncoding.EncodeToString(id[:])
}
