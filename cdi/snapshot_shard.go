package cdi

import "hash/maphash"

// Devices are spread over many tables, so that a change copies but a few of them.
const shardCount = 256

type deviceKey struct{ kind, name string }

var shardSeed = maphash.MakeSeed()

func (k deviceKey) hash() uint64 {
	return maphash.String(shardSeed, k.kind)*31 + maphash.String(shardSeed, k.name)
}

// shard finds the files that have a device: a table with open addressing, whose
// length is a power of two, and of which a quarter at least is empty. A device of
// several files is in it as often. A map would take five times the memory.
type shard struct {
	entries []entry
	used    int
}

// entry is the device with an index in a file; the zero value is empty.
type entry struct {
	file   *file
	device uint32
	hash   uint32 // of its key, the part that is not the number of the shard
}

// entry is that of one device of the file, and the number of its shard.
func (f *file) entry(device int) (n int, e entry) {
	n, rest := shardOf(deviceKey{f.kind, f.devices[device]}.hash())
	return n, entry{f, uint32(device), rest}
}

func (e entry) key() deviceKey { return deviceKey{e.file.kind, e.file.devices[e.device]} }

// shardOf is the number of the shard for a hash, and the rest of the hash.
func shardOf(hash uint64) (n int, rest uint32) { return int(hash >> 56), uint32(hash) }

// slot holds the files that have a device: nearly always one.
type slot struct {
	first *file
	more  []*file
}

// find is the slot of a device.
func (s *shard) find(key deviceKey, hash uint32) (found slot) {
	if s.used == 0 {
		return slot{}
	}
	mask := len(s.entries) - 1
	for i := int(hash) & mask; s.entries[i].file != nil; i = (i + 1) & mask {
		e := s.entries[i]
		switch {
		case e.hash != hash || e.key() != key:
		case found.first == nil:
			found.first = e.file
		default:
			found.more = append(found.more, e.file)
		}
	}
	return found
}

func (s *shard) add(e entry) {
	if 4*(s.used+1) > 3*len(s.entries) {
		s.resize(max(8, 2*len(s.entries)))
	}
	mask := len(s.entries) - 1
	i := int(e.hash) & mask
	for s.entries[i].file != nil {
		i = (i + 1) & mask
	}
	s.entries[i] = e
	s.used++
}

// resize gives the table a length, a power of two.
func (s *shard) resize(length int) {
	old := s.entries
	s.entries, s.used = make([]entry, length), 0
	for _, e := range old {
		if e.file != nil {
			s.add(e)
		}
	}
}

// drop removes an entry; those behind it that it kept from their place move up.
func (s *shard) drop(e entry) {
	mask := len(s.entries) - 1
	i := int(e.hash) & mask
	for s.entries[i] != e {
		i = (i + 1) & mask
	}
	s.used--
	for hole := i; ; {
		s.entries[hole] = entry{}
		for {
			i = (i + 1) & mask
			next := s.entries[i]
			if next.file == nil {
				return
			}
			if home := int(next.hash) & mask; (i-home)&mask >= (i-hole)&mask {
				s.entries[hole] = next
				break
			}
		}
		hole = i
	}
}

// all yields each device once, with its slot.
func (s *shard) all(yield func(deviceKey, slot) bool) {
	for _, e := range s.entries {
		if e.file == nil {
			continue
		}
		key := e.key()
		if found := s.find(key, e.hash); found.first == e.file && !yield(key, found) {
			return
		}
	}
}

// files are a copy of all files of the slot.
func (s slot) files() []*file {
	if s.first == nil {
		return nil
	}
	return append([]*file{s.first}, s.more...)
}

// winner is the file with the highest priority. Where several have that, rivals
// are all of them: the device is disabled, and nothing else is.
func (s slot) winner() (f *file, rivals []*file) {
	if len(s.more) == 0 {
		return s.first, nil
	}
	for _, one := range s.files() {
		switch {
		case rivals == nil || one.dir.priority > rivals[0].dir.priority:
			rivals = []*file{one}
		case one.dir.priority == rivals[0].dir.priority:
			rivals = append(rivals, one)
		}
	}
	if len(rivals) > 1 {
		return nil, rivals
	}
	return rivals[0], nil
}
