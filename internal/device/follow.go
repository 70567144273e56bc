package device

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// settling is how long after a change devices are looked at again: udev makes its
// links and sets owners only after the kernel has told of a device.
var settling = []time.Duration{100 * time.Millisecond, time.Second, 5 * time.Second}

// Follow tells what m finds: once at the start, and again whenever that changes,
// such as when a device is taken out (then it is not among them) and put in again
// under another number. The channel is closed when ctx ends. A reader that is
// slow gets the latest, not all that was in between.
func (h Host) Follow(ctx context.Context, m Match) (<-chan []Device, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("follow devices: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	events, err := h.Watch(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	found := make(chan []Device)
	go func() {
		defer close(found)
		defer cancel()
		h.follow(ctx, m, events, found)
	}()
	return found, nil
}

func (h Host) follow(ctx context.Context, m Match, events <-chan Event, found chan<- []Device) {
	var last, now []Device
	told := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	later := settling // looks still to come
	soon := false     // the first of them is set: further events do not put it off
	for {
		var out chan<- []Device // nil, which blocks, unless there is news
		if told = told && reflect.DeepEqual(last, now); !told && now != nil {
			out = found
		}
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
			later = settling[1:]
			if !soon {
				timer.Reset(settling[0])
				soon = true
			}
		case <-timer.C:
			soon = false
			if list, err := h.Find(ctx, m); err == nil {
				now = append([]Device{}, list...)
			}
			if len(later) > 0 {
				timer.Reset(later[0])
				later = later[1:]
			}
		case out <- now:
			last, told = now, true
		}
	}
}
