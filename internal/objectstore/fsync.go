package objectstore

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// syncFile brings one file or directory to the disk, attributes included. One
// that is gone needs no sync of its own: its absence is its directory's.
func syncFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return f.Sync()
}

// dirSyncer syncs directories; callers that want the same one at the same time
// share a sync. The zero value is ready.
type dirSyncer struct {
	mu   sync.Mutex
	dirs map[string]*dirSync
}

// dirSync is one directory being synced. A caller that arrives during a sync
// may have changed the directory after it began, and so waits for the next.
type dirSync struct {
	next *syncRound // what callers arriving now will share; nil if nobody has
}

type syncRound struct {
	done chan struct{}
	err  error
}

// sync brings the entries of dir to the disk.
func (d *dirSyncer) sync(dir string) error {
	d.mu.Lock()
	if d.dirs == nil {
		d.dirs = map[string]*dirSync{}
	}
	s, running := d.dirs[dir]
	if running {
		if s.next == nil {
			s.next = &syncRound{done: make(chan struct{})}
		}
		round := s.next
		d.mu.Unlock()
		<-round.done
		return round.err
	}
	s = &dirSync{}
	d.dirs[dir] = s
	d.mu.Unlock()
	err := syncFile(dir)
	d.finish(dir, s)
	return err
}

// finish runs the rounds that gathered meanwhile, and then lets go of dir.
func (d *dirSyncer) finish(dir string, s *dirSync) {
	d.mu.Lock()
	round := s.next
	s.next = nil
	if round == nil {
		delete(d.dirs, dir)
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	go func() {
		round.err = syncFile(dir)
		close(round.done)
		d.finish(dir, s)
	}()
}
