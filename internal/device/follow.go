package device

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"
)

// settling is how long after a change devices are looked at again: udev makes its
// links and sets owners only after the kernel has told of a device.
var settling = []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

// defaultUnasked is how often devices are looked at though nobody has told of a
// change: NVIDIA's driver makes its nodes without a word, and so does a person
// with mknod.
const defaultUnasked = 30 * time.Second

// Looks tells when to look at devices (List, Find, FindEach) for whoever is to
// know at all times which there are: at the start, some times after each
// change, and every half minute. Looks that nobody was there for become one. The channel is closed when
// ctx ends.
func (h Host) Looks(ctx context.Context) (<-chan struct{}, error) {
	events, err := h.Watch(ctx)
	if err != nil {
		return nil, err
	}
	looks := make(chan struct{}, 1)
	go func() {
		defer close(looks)
		settle := time.NewTimer(0)
		defer settle.Stop()
		later := settling // looks still to come
		soon := false     // the first of them is set: further events do not put it off
		for {
			select {
			case _, ok := <-events:
				if !ok {
					return
				}
				later = settling[1:]
				if !soon {
					settle.Reset(settling[0])
					soon = true
				}
			case <-settle.C:
				soon = false
				select {
				case looks <- struct{}{}:
				default: // the last one was not taken up yet
				}
				next := cmp.Or(h.unasked, defaultUnasked)
				if len(later) > 0 {
					next, later = later[0], later[1:]
				}
				settle.Reset(next)
			}
		}
	}()
	return looks, nil
}

// Follow tells what m finds: once at the start, and again whenever that changes,
// such as when a device is taken out (then it is not among them) and put in again
// under another number. The channel is closed when ctx ends. A reader that is
// slow gets the latest, not all that was in between.
func (h Host) Follow(ctx context.Context, m Match) (<-chan []Device, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("follow devices: %w", err)
	}
	looks, err := h.Looks(ctx)
	if err != nil {
		return nil, err
	}
	found := make(chan []Device)
	go func() {
		defer close(found)
		h.follow(ctx, m, looks, found)
	}()
	return found, nil
}

func (h Host) follow(ctx context.Context, m Match, looks <-chan struct{}, found chan<- []Device) {
	var last, now []Device
	told := false
	for {
		var out chan<- []Device // nil, which blocks, unless there is news
		if told = told && reflect.DeepEqual(last, now); !told && now != nil {
			out = found
		}
		select {
		case _, ok := <-looks:
			if !ok {
				return
			}
			if list, err := h.Find(ctx, m); err == nil {
				now = append([]Device{}, list...)
			}
		case out <- now:
			last, told = now, true
		}
	}
}
