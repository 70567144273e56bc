package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
	"slices"
)

// ErrNotLibrary says that a file is no shared library that the dynamic linker
// of any known architecture would load.
var ErrNotLibrary = errors.New("not a shared library")

// Library is what a shared library says of itself.
type Library struct {
	Soname string // empty if it says none: then its file name counts
	Flags  Flags
	ISA    uint // the x86 ISA level that it needs, 0 if it does not say
	Order  Order
}

// The limits of what is read of one file, each far above what linkers write.
const (
	maxSegments = 256
	maxDynamic  = 64 << 10
	maxSoname   = 255 // a file name
	maxProperty = 4 << 10
)

// Reader reads libraries one after the other. The zero value is ready; it is
// not for several goroutines at once.
type Reader struct {
	head [4096]byte // of nearly every library it holds all program headers
	more []byte
}

// Read reads what the cache needs to know of an ELF file: its header, its
// program headers, its dynamic section and one string. It is not debug/elf,
// which reads the sections too, on which the dynamic linker does not rely
// and which a stripped library lacks.
func (r *Reader) Read(file io.ReaderAt) (Library, error) {
	n, err := file.ReadAt(r.head[:], 0)
	if err != nil && err != io.EOF {
		return Library{}, err
	}
	f := image{file: file, head: r.head[:n], more: &r.more}
	if err := f.header(); err != nil {
		return Library{}, err
	}
	if err := f.programHeaders(); err != nil {
		return Library{}, err
	}
	lib := Library{Flags: f.flags, Order: f.order}
	if lib.Soname, err = f.soname(); err != nil {
		return Library{}, err
	}
	if f.machine == machineX86_64 || f.machine == machine386 {
		lib.ISA = f.isa()
	}
	return lib, nil
}

// The numbers of the ELF format that matter here.
const (
	typeDynamic     = 3
	programLoad     = 1
	programDynamic  = 2
	programProperty = 0x6474e553
	tagNull         = 0
	tagStrings      = 5
	tagSoname       = 14
)

// image is an ELF file of either class and byte order.
type image struct {
	file    io.ReaderAt
	head    []byte // its first bytes
	more    *[]byte
	order   Order
	wide    bool // 64 bits
	machine uint16
	flags   Flags

	programs          uint64 // where the program headers are
	programSize       int
	segments          int
	dynamic, property segment
	loads             []segment
}

type segment struct{ offset, address, size, align uint64 }

func (f *image) header() error {
	b := f.head
	if len(b) < 64 || !bytes.HasPrefix(b, []byte("\x7fELF")) {
		return ErrNotLibrary
	}
	switch b[5] {
	case 1:
		f.order = binary.LittleEndian
	case 2:
		f.order = binary.BigEndian
	default:
		return ErrNotLibrary
	}
	if f.order.Uint16(b[16:]) != typeDynamic {
		return ErrNotLibrary
	}
	f.machine = f.order.Uint16(b[18:])
	var eflags uint32
	switch b[4] {
	case 2:
		f.wide = true
		f.programs, eflags = f.order.Uint64(b[32:]), f.order.Uint32(b[48:])
		f.programSize, f.segments = int(f.order.Uint16(b[54:])), int(f.order.Uint16(b[56:]))
	case 1:
		f.programs, eflags = uint64(f.order.Uint32(b[28:])), f.order.Uint32(b[36:])
		f.programSize, f.segments = int(f.order.Uint16(b[42:])), int(f.order.Uint16(b[44:]))
	default:
		return ErrNotLibrary
	}
	var ok bool
	if f.flags, ok = flagsOf(f.machine, f.wide, eflags); !ok {
		return ErrNotLibrary
	}
	return nil
}

func (f *image) programHeaders() error {
	size := 32
	if f.wide {
		size = 56
	}
	if f.programSize != size || f.segments > maxSegments {
		return ErrNotLibrary
	}
	table, ok := f.read(f.programs, f.segments*size)
	if !ok {
		return ErrNotLibrary
	}
	for ; len(table) > 0; table = table[size:] {
		s := f.segment(table)
		switch f.order.Uint32(table) {
		case programLoad:
			f.loads = append(f.loads, s)
		case programDynamic:
			f.dynamic = s
		case programProperty:
			f.property = s
		}
	}
	if f.dynamic.size == 0 {
		return ErrNotLibrary
	}
	return nil
}

func (f *image) segment(b []byte) segment {
	if f.wide {
		return segment{f.order.Uint64(b[8:]), f.order.Uint64(b[16:]), f.order.Uint64(b[32:]), f.order.Uint64(b[48:])}
	}
	return segment{uint64(f.order.Uint32(b[4:])), uint64(f.order.Uint32(b[8:])),
		uint64(f.order.Uint32(b[16:])), uint64(f.order.Uint32(b[28:]))}
}

// soname finds DT_SONAME; empty if there is none.
func (f *image) soname() (string, error) {
	dynamic, ok := f.read(f.dynamic.offset, int(min(f.dynamic.size, maxDynamic)))
	if !ok {
		return "", ErrNotLibrary
	}
	var stringsAt, name uint64
	var haveStrings, haveName bool
	word := 4
	if f.wide {
		word = 8
	}
	for ; len(dynamic) >= 2*word && !(haveName && haveStrings); dynamic = dynamic[2*word:] {
		tag, value := f.word(dynamic), f.word(dynamic[word:])
		if tag == tagNull {
			break
		}
		switch tag {
		case tagStrings:
			stringsAt, haveStrings = value, true
		case tagSoname:
			name, haveName = value, true
		}
	}
	if !haveStrings {
		return "", ErrNotLibrary
	}
	if !haveName {
		return "", nil
	}
	return f.text(f.offset(stringsAt) + name)
}

func (f *image) word(b []byte) uint64 {
	if f.wide {
		return f.order.Uint64(b)
	}
	return uint64(f.order.Uint32(b))
}

// offset is where in the file that address is.
func (f *image) offset(address uint64) uint64 {
	for _, s := range f.loads {
		if address >= s.address && address-s.address < s.size {
			return address - s.address + s.offset
		}
	}
	return address
}

func (f *image) text(at uint64) (string, error) {
	var b []byte
	if at < uint64(len(f.head)) && bytes.IndexByte(f.head[at:], 0) >= 0 {
		b = f.head[at:]
	} else {
		if at > 1<<62 {
			return "", ErrNotLibrary
		}
		*f.more = slices.Grow((*f.more)[:0], maxSoname+1)
		b = (*f.more)[:maxSoname+1]
		n, err := f.file.ReadAt(b, int64(at))
		if err != nil && err != io.EOF {
			return "", err
		}
		b = b[:n]
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 || end > maxSoname {
		return "", ErrNotLibrary
	}
	return string(b[:end]), nil
}

// read returns size bytes at that offset, from the first page if they are there.
// They are valid until the next call.
func (f *image) read(at uint64, size int) ([]byte, bool) {
	if at <= uint64(len(f.head)) && uint64(size) <= uint64(len(f.head))-at {
		return f.head[at : at+uint64(size)], true
	}
	if at > 1<<62 {
		return nil, false
	}
	*f.more = slices.Grow((*f.more)[:0], size)
	b := (*f.more)[:size]
	if n, _ := f.file.ReadAt(b, int64(at)); n < size {
		return nil, false
	}
	return b, true
}

// GNU_PROPERTY_X86_ISA_1_NEEDED, and the note that it is in.
const (
	propertyISANeeded = 0xc0008002
	noteProperty      = 5
)

// isa is the x86 ISA level that the library needs: the highest bit of the
// property that says it. A note that is malformed says nothing.
func (f *image) isa() uint {
	align := 4
	if f.wide {
		align = 8
	}
	if f.property.align != uint64(align) || f.property.size > maxProperty {
		return 0
	}
	note, ok := f.read(f.property.offset, int(f.property.size))
	if !ok || len(note) < 16 || f.order.Uint32(note) != 4 ||
		f.order.Uint32(note[8:]) != noteProperty || string(note[12:16]) != "GNU\x00" {
		return 0
	}
	properties := note[16:min(len(note), 16+int(min(f.order.Uint32(note[4:]), maxProperty)))]
	for len(properties) >= 8 {
		kind, size := f.order.Uint32(properties), f.order.Uint32(properties[4:])
		properties = properties[8:]
		if uint64(size) > uint64(len(properties)) {
			return 0
		}
		if kind == propertyISANeeded && size == 4 {
			return uint(max(bits.Len32(f.order.Uint32(properties))-1, 0))
		}
		properties = properties[min(len(properties), (int(size)+align-1)&^(align-1)):]
	}
	return 0
}
