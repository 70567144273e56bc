package cosi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxPoll is the longest time between two looks at a socket that is not there:
// the fallback where its directory cannot be watched, or does not exist yet.
const maxPoll = time.Second

// socketWatch waits for a change of one socket's file.
type socketWatch struct {
	path    string
	watcher *fsnotify.Watcher // nil: poll only
}

// watchSocket begins to watch, before the caller looks, so that no change is missed.
func watchSocket(path string) *socketWatch {
	w := &socketWatch{path: path}
	if watcher, err := fsnotify.NewWatcher(); err == nil { // fails where inotify's instances are used up
		w.watcher = watcher
		w.add()
	}
	return w
}

// add watches the directory: a socket that does not exist cannot be watched
// itself. It is repeated at each wait since the directory may have come, or
// gone and come again; a repeat changes nothing.
func (w *socketWatch) add() {
	if w.watcher != nil {
		_ = w.watcher.Add(filepath.Dir(w.path))
	}
}

func (w *socketWatch) close() {
	if w.watcher != nil {
		_ = w.watcher.Close()
	}
}

// wait returns after pause, or earlier with true when the socket has been made
// or its mode changed. It fails when ctx or closed ends.
func (w *socketWatch) wait(ctx, closed context.Context, pause time.Duration) (changed bool, err error) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	w.add()
	var events <-chan fsnotify.Event
	var failures <-chan error
	if w.watcher != nil {
		events, failures = w.watcher.Events, w.watcher.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-closed.Done():
			return false, closed.Err()
		case <-timer.C:
			return false, nil
		case e := <-events:
			if e.Name == w.path && e.Op.Has(fsnotify.Create|fsnotify.Chmod) {
				return true, nil
			}
		case <-failures: // such as lost events: the timer still runs
		}
	}
}

// socketID tells one socket file from the next at the same path. The inode
// number alone does not: file systems use it again at once.
type socketID struct {
	dev, ino uint64
	born     time.Time
}

func identify(path string) (socketID, bool) {
	fi, err := os.Stat(path)
	if err != nil {
		return socketID{}, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return socketID{}, false
	}
	return socketID{uint64(st.Dev), st.Ino, fi.ModTime()}, true
}

// replaced reports that another socket is at path now. One that is merely gone
// may still answer on what is connected.
func (id socketID) replaced(path string) bool {
	now, ok := identify(path)
	return ok && now != id
}

func explainDial(path string, err error) string {
	fi, statErr := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "no socket at " + path + " yet"
	case statErr == nil && fi.Mode().Type() != os.ModeSocket:
		return path + " is no socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + path
	case errors.Is(err, os.ErrPermission):
		return "no permission to connect to " + path
	}
	return fmt.Sprintf("connect to %s: %v", path, err)
}
