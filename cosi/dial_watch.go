package cosi

import (
	"context"
	"path/filepath"
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
