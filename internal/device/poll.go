package device

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// seen is a device as poll finds it. It is another one if anything differs: a
// node that was made again has another inode.
type seen struct {
	devpath   string
	subsystem string
	node      string
	inode     uint64
	rdev      uint64
}

// poll compares what sysfs has every interval and sends the differences, until
// ctx ends.
func poll(ctx context.Context, t *tree, events chan<- Event, interval time.Duration) {
	before := look(t)
	if !send(ctx, events, Event{Action: Rescan}) {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := look(t)
		for _, e := range differences(before, now) {
			if !send(ctx, events, e) {
				return
			}
		}
		before = now
	}
}

func send(ctx context.Context, events chan<- Event, e Event) bool {
	select {
	case events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// look finds all devices with numbers, by type and number.
func look(t *tree) map[string]seen {
	all := make(map[string]seen)
	s := &scan{tree: t}
	for _, kind := range []string{"char", "block"} {
		for _, number := range t.names("/sys/dev/" + kind) {
			d := s.sysdev(path.Join("/sys/dev", kind, number))
			n, ok := s.node(d, "")
			if !ok {
				continue
			}
			v := seen{devpath: strings.TrimPrefix(d.path, "/sys"), subsystem: d.base("subsystem"), node: n.HostPath}
			if st, ok := t.stat(n.HostPath, false); ok {
				v.inode, v.rdev = st.Ino, uint64(st.Rdev)
			}
			all[kind+" "+number] = v
		}
	}
	return all
}

// differences are the events between two looks, removals first: what comes may
// take the number of what went.
func differences(before, now map[string]seen) []Event {
	var events []Event
	for _, pair := range []struct {
		action   Action
		in, from map[string]seen
	}{{Remove, before, now}, {Add, now, before}} {
		for _, key := range slices.Sorted(maps.Keys(pair.in)) {
			if v := pair.in[key]; pair.from[key] != v {
				events = append(events, v.event(pair.action))
			}
		}
	}
	return events
}

func (v seen) event(action Action) Event {
	return Event{
		Action: action, DevPath: v.devpath, Subsystem: v.subsystem, Node: v.node,
		Major: unix.Major(v.rdev), Minor: unix.Minor(v.rdev), Env: map[string]string{},
	}
}
