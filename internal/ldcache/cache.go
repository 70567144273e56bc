package ldcache

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
)

// ErrFormat is wrapped by the error of every file that is no cache.
var ErrFormat = errors.New("not a cache of the dynamic linker")

// Order is the byte order of the machine that reads a cache.
type Order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Entry is one library that the dynamic linker finds by name.
type Entry struct {
	Name  string // what a program needs: the SONAME, such as libc.so.6
	Path  string // where it is, absolute in the container
	Flags Flags
	// Hwcaps is the name of the glibc-hwcaps subdirectory that the library
	// lies in, such as x86-64-v3; empty for the others.
	Hwcaps string
	ISA    uint // the x86 ISA level that the library needs; kept for those in Hwcaps only
}

// The file: a header, the entries, the strings, and a directory of extensions.
// Offsets of strings count from the start of the file.
const (
	magicOld = "ld.so-1.7.0"
	magic    = "glibc-ld.so.cache1.1"

	headerSize    = 48
	entrySize     = 24
	oldHeaderSize = 16 // magic, one byte of padding, number of entries
	oldEntrySize  = 12

	extensionMagic = 0xeaa42174
	tagGenerator   = 0
	tagHwcaps      = 1
	sectionSize    = 16

	endianMask   = 3
	littleEndian = 2
	bigEndian    = 3

	// hwcapExtension marks an entry of a glibc-hwcaps subdirectory: below it lie
	// 10 bits of ISA level and, in the lower half, the index of the name.
	hwcapExtension = 1 << 62
	isaMask        = 1<<10 - 1
)

// Sort puts entries into the order in which the dynamic linker searches: it
// halves by name, and of the entries of one name takes the first that fits. So
// among equals those that came first stay first: they are of the directory with
// the higher priority.
func Sort(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if c := CompareNames(b.Name, a.Name); c != 0 {
			return c
		}
		if c := cmp.Compare(b.Flags, a.Flags); c != 0 {
			return c
		}
		// The linker stops at the first entry that is of no hwcaps subdirectory.
		if (a.Hwcaps == "") != (b.Hwcaps == "") {
			if a.Hwcaps != "" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Hwcaps, b.Hwcaps)
	})
}

// Marshal returns the file for entries, which Sort has ordered, in the byte
// order of the machine that will read it. Generator is kept in the file as the
// name of the program that wrote it.
func Marshal(entries []Entry, order Order, generator string) ([]byte, error) {
	hwcaps := hwcapNames(entries)
	first := headerSize + len(entries)*entrySize
	strs := newStrings(first)
	b := writer{order: order, data: make([]byte, 0, first+64*len(entries))}
	body := writer{order: order}
	for _, e := range entries {
		key, value := strs.library(e.Name, e.Path)
		body.u32(uint32(e.Flags), key, value, 0)
		body.u64(e.hwcap(hwcaps))
	}
	names := make([]uint32, len(hwcaps))
	for i, name := range hwcaps {
		names[i] = strs.add(name)
	}
	extension := (first + len(strs.data) + 3) &^ 3
	if extension > math.MaxInt32 {
		return nil, fmt.Errorf("write cache: %d libraries are too many", len(entries))
	}

	b.data = append(b.data, magic...)
	b.u32(uint32(len(entries)), uint32(len(strs.data)))
	b.data = append(b.data, endianOf(order), 0, 0, 0)
	b.u32(uint32(extension), 0, 0, 0)
	b.data = append(b.data, body.data...)
	b.data = append(b.data, strs.data...)
	b.data = append(b.data, make([]byte, extension-len(b.data))...)
	b.extensions(names, generator)
	return b.data, nil
}

// extensions appends the directory of extensions and what it points to.
func (b *writer) extensions(hwcaps []uint32, generator string) {
	sections := uint32(1)
	if len(hwcaps) > 0 {
		sections = 2
	}
	data := uint32(len(b.data)) + 8 + sections*sectionSize
	b.u32(extensionMagic, sections)
	size := uint32(4 * len(hwcaps))
	b.u32(tagGenerator, 0, data+size, uint32(len(generator)))
	if size > 0 {
		b.u32(tagHwcaps, 0, data, size)
		b.u32(hwcaps...)
	}
	b.data = append(b.data, generator...)
}

// hwcapNames are the subdirectories in use, sorted as the linker expects.
func hwcapNames(entries []Entry) []string {
	var names []string
	for _, e := range entries {
		if e.Hwcaps != "" && !slices.Contains(names, e.Hwcaps) {
			names = append(names, e.Hwcaps)
		}
	}
	slices.Sort(names)
	return names
}

func (e Entry) hwcap(names []string) uint64 {
	if e.Hwcaps == "" {
		return 0
	}
	i, _ := slices.BinarySearch(names, e.Hwcaps)
	return hwcapExtension | uint64(e.ISA&isaMask)<<32 | uint64(i)
}

func endianOf(order Order) byte {
	if order == Order(binary.BigEndian) {
		return bigEndian
	}
	return littleEndian
}

// writer appends numbers in one byte order.
type writer struct {
	order Order
	data  []byte
}

func (b *writer) u32(values ...uint32) {
	for _, v := range values {
		b.data = b.order.AppendUint32(b.data, v)
	}
}

func (b *writer) u64(v uint64) { b.data = b.order.AppendUint64(b.data, v) }

// table is the strings of a file, each once.
type table struct {
	data []byte
	base int
	at   map[string]uint32
}

func newStrings(base int) *table { return &table{base: base, at: map[string]uint32{}} }

// library adds a path and a name, which is most often the end of the path and
// then takes no room.
func (t *table) library(name, file string) (key, value uint32) {
	value = t.add(file)
	if path.Base(file) == name {
		return value + uint32(len(file)-len(name)), value
	}
	return t.add(name), value
}

func (t *table) add(s string) uint32 {
	if at, ok := t.at[s]; ok {
		return at
	}
	at := uint32(t.base + len(t.data))
	t.at[s] = at
	t.data = append(append(t.data, s...), 0)
	return at
}

// Parse reads a cache, also one that is embedded in a cache of the old format.
// Entries come in the order of the file. A file of the old format alone, which
// glibc stopped writing by itself in 2002, is ErrFormat.
func Parse(data []byte) ([]Entry, error) {
	data, err := newFormat(data)
	if err != nil {
		return nil, err
	}
	order, err := orderOf(data[28])
	if err != nil {
		return nil, err
	}
	n := int(order.Uint32(data[20:]))
	if n > (len(data)-headerSize)/entrySize {
		return nil, fmt.Errorf("%w: it ends before its last entry", ErrFormat)
	}
	r := reader{data: data, texts: string(data), order: order}
	if err := r.hwcapNames(order.Uint32(data[32:])); err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, n)
	for i := range n {
		e, err := r.entry(data[headerSize+i*entrySize:])
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// newFormat is the part of a file that is in the new format: offsets count from
// its first byte.
func newFormat(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, []byte(magicOld)) && len(data) >= oldHeaderSize {
		// Nothing but the place of the new header says which byte order it is.
		for _, order := range []Order{binary.LittleEndian, binary.BigEndian} {
			n := uint64(order.Uint32(data[12:]))
			at := (oldHeaderSize + n*oldEntrySize + 7) &^ 7
			if at < uint64(len(data)) && bytes.HasPrefix(data[at:], []byte(magic)) {
				data = data[at:]
				break
			}
		}
	}
	if !bytes.HasPrefix(data, []byte(magic)) || len(data) < headerSize {
		return nil, ErrFormat
	}
	return data, nil
}

// orderOf takes a file of before glibc 2.33, which does not say its byte order,
// for one of a little-endian machine.
func orderOf(flags byte) (Order, error) {
	switch flags & endianMask {
	case 0, littleEndian:
		return binary.LittleEndian, nil
	case bigEndian:
		return binary.BigEndian, nil
	default:
		return nil, fmt.Errorf("%w: it is marked invalid", ErrFormat)
	}
}

// maxString is the longest that a path can be, in bytes.
const maxString = 4095

type reader struct {
	data   []byte
	texts  string // data once more: what is cut out of it takes no room
	order  Order
	hwcaps []string
}

func (r *reader) entry(b []byte) (Entry, error) {
	name, err := r.text(r.order.Uint32(b[4:]))
	if err != nil {
		return Entry{}, err
	}
	file, err := r.text(r.order.Uint32(b[8:]))
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Name: name, Path: file, Flags: Flags(r.order.Uint32(b))}
	hwcap := r.order.Uint64(b[16:])
	if hwcap>>32&^isaMask != hwcapExtension>>32 {
		return e, nil
	}
	i := uint32(hwcap)
	if uint64(i) >= uint64(len(r.hwcaps)) {
		return Entry{}, fmt.Errorf("%w: its hwcaps subdirectory has no name", ErrFormat)
	}
	e.Hwcaps, e.ISA = r.hwcaps[i], uint(hwcap>>32&isaMask)
	return e, nil
}

func (r *reader) text(at uint32) (string, error) {
	if uint64(at) >= uint64(len(r.texts)) {
		return "", fmt.Errorf("%w: a string lies outside", ErrFormat)
	}
	text := r.texts[at:min(len(r.texts), int(at)+maxString+1)]
	end := strings.IndexByte(text, 0)
	if end < 0 {
		return "", fmt.Errorf("%w: a string has no end", ErrFormat)
	}
	return text[:end], nil
}

// hwcapNames reads the names of the hwcaps subdirectories from the extensions,
// whose directory is there; 0 is none.
func (r *reader) hwcapNames(at uint32) error {
	if at == 0 {
		return nil
	}
	dir, ok := r.slice(at, 8)
	if !ok || at%4 != 0 || r.order.Uint32(dir) != extensionMagic {
		return fmt.Errorf("%w: its extensions are malformed", ErrFormat)
	}
	n := r.order.Uint32(dir[4:])
	if uint64(n)*sectionSize > uint64(len(r.data)) {
		return fmt.Errorf("%w: its extensions lie outside", ErrFormat)
	}
	sections, ok := r.slice(at+8, n*sectionSize)
	if !ok {
		return fmt.Errorf("%w: its extensions lie outside", ErrFormat)
	}
	for ; len(sections) > 0; sections = sections[sectionSize:] {
		data, ok := r.slice(r.order.Uint32(sections[8:]), r.order.Uint32(sections[12:]))
		if !ok {
			return fmt.Errorf("%w: an extension lies outside", ErrFormat)
		}
		if r.order.Uint32(sections) != tagHwcaps {
			continue
		}
		if r.hwcaps != nil {
			return fmt.Errorf("%w: it names hwcaps subdirectories twice", ErrFormat)
		}
		for ; len(data) >= 4; data = data[4:] {
			name, err := r.text(r.order.Uint32(data))
			if err != nil {
				return err
			}
			r.hwcaps = append(r.hwcaps, name)
		}
	}
	return nil
}

func (r *reader) slice(at, size uint32) ([]byte, bool) {
	if uint64(at)+uint64(size) > uint64(len(r.data)) {
		return nil, false
	}
	return r.data[at : at+size], true
}
