package ldcache

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"
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

// ReadLibrary reads what the cache needs to know of an ELF file: its header, its
// program headers, its dynamic section and one string. It is not debug/elf,
// which reads the sections too, on which the dynamic linker does not rely
// and which a stripped library lacks.
func ReadLibrary(file io.ReaderAt) (Library, error) {
	// One page holds the header and the program headers of nearly every library.
	var page [4096]byte
	n, err := file.ReadAt(page[:], 0)
	if err != nil && err != io.EOF {
		return Library{}, err
	}
	f := image{file: file, head: page[:n]}
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
	if f.machine == elf.EM_X86_64 || f.machine == elf.EM_386 {
		lib.ISA = f.isa()
	}
	return lib, nil
}

// image is an ELF file of either class and byte order.
type image struct {
	file    io.ReaderAt
	head    []byte // its first bytes
	order   Order
	wide    bool // 64 bits
	machine elf.Machine
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
	if len(b) < 64 || !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		return ErrNotLibrary
	}
	switch elf.Data(b[elf.EI_DATA]) {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return ErrNotLibrary
	}
	if elf.Type(f.order.Uint16(b[16:])) != elf.ET_DYN {
		return ErrNotLibrary
	}
	f.machine = elf.Machine(f.order.Uint16(b[18:]))
	var eflags uint32
	switch elf.Class(b[elf.EI_CLASS]) {
	case elf.ELFCLASS64:
		f.wide = true
		f.programs, eflags = f.order.Uint64(b[32:]), f.order.Uint32(b[48:])
		f.programSize, f.segments = int(f.order.Uint16(b[54:])), int(f.order.Uint16(b[56:]))
	case elf.ELFCLASS32:
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
		switch elf.ProgType(f.order.Uint32(table)) {
		case elf.PT_LOAD:
			f.loads = append(f.loads, s)
		case elf.PT_DYNAMIC:
			f.dynamic = s
		case elf.PT_GNU_PROPERTY:
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
	for ; len(dynamic) >= 2*word && !haveName || len(dynamic) >= 2*word && !haveStrings; dynamic = dynamic[2*word:] {
		tag, value := f.word(dynamic), f.word(dynamic[word:])
		if tag == uint64(elf.DT_NULL) {
			break
		}
		switch tag {
		case uint64(elf.DT_STRTAB):
			stringsAt, haveStrings = value, true
		case uint64(elf.DT_SONAME):
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
	var buf [maxSoname + 1]byte
	b := buf[:]
	if at < uint64(len(f.head)) && bytes.IndexByte(f.head[at:], 0) >= 0 {
		b = f.head[at:]
	} else {
		if at > 1<<62 {
			return "", ErrNotLibrary
		}
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
func (f *image) read(at uint64, size int) ([]byte, bool) {
	if at <= uint64(len(f.head)) && uint64(size) <= uint64(len(f.head))-at {
		return f.head[at : at+uint64(size)], true
	}
	if at > 1<<62 {
		return nil, false
	}
	b := make([]byte, size)
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
