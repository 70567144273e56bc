package ldcache

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

// program is a shared library as far as it is of use here.
type program struct {
	machine elf.Machine
	wide    bool
	order   Order
	eflags  uint32
	soname  string
	isa     uint32 // GNU_PROPERTY_X86_ISA_1_NEEDED, if not 0
}

// build lays it out: header, program headers, dynamic section, note, strings, and
// maps all of it at an address that is not its offset.
func (p program) build() []byte {
	const base = 0x10000
	header, entry, word := 52, 32, 4
	if p.wide {
		header, entry, word = 64, 56, 8
	}
	dynamic := header + 3*entry
	note := dynamic + 3*2*word
	text := note + 16 + 8 + 8
	size := text + len(p.soname) + 2
	w := writer{order: p.order}
	num := func(v int) {
		if p.wide {
			w.u64(uint64(v))
		} else {
			w.u32(uint32(v))
		}
	}
	half := func(v ...int) {
		for _, x := range v {
			w.data = p.order.AppendUint16(w.data, uint16(x))
		}
	}
	class, data := byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB)
	if p.wide {
		class = byte(elf.ELFCLASS64)
	}
	if p.order == Order(binary.BigEndian) {
		data = byte(elf.ELFDATA2MSB)
	}
	w.data = append(w.data, 0x7f, 'E', 'L', 'F', class, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	half(int(elf.ET_DYN), int(p.machine))
	w.u32(1)
	num(0)
	num(header)
	num(0)
	w.u32(p.eflags)
	half(header, entry, 3, 0, 0, 0)
	segment := func(kind elf.ProgType, at, size, align int) {
		if p.wide {
			w.u32(uint32(kind), 0)
			for _, v := range []int{at, at + base, 0, size, size, align} {
				num(v)
			}
			return
		}
		w.u32(uint32(kind), uint32(at), uint32(at+base), 0, uint32(size), uint32(size), 0, uint32(align))
	}
	segment(elf.PT_LOAD, 0, size, 4096)
	segment(elf.PT_DYNAMIC, dynamic, 3*2*word, word)
	segment(elf.PT_GNU_PROPERTY, note, 32, word)
	for _, v := range []int{int(elf.DT_SONAME), 1, int(elf.DT_STRTAB), text + base, 0, 0} {
		num(v)
	}
	w.u32(4, 16, 5)
	w.data = append(w.data, "GNU\x00"...)
	w.u32(propertyISANeeded, 4, p.isa, 0)
	w.data = append(append(append(w.data, 0), p.soname...), 0)
	return w.data
}

func read(data []byte) (Library, error) {
	var r Reader
	return r.Read(bytes.NewReader(data))
}

func TestReadEveryArchitecture(t *testing.T) {
	t.Parallel()
	little, big := Order(binary.LittleEndian), Order(binary.BigEndian)
	for _, c := range []struct {
		p    program
		want string
	}{
		{program{elf.EM_X86_64, true, little, 0, "libx.so.1", 0}, "libc6,x86-64"},
		{program{elf.EM_X86_64, false, little, 0, "libx.so.1", 0}, "libc6,x32"},
		{program{elf.EM_386, false, little, 0, "libx.so.1", 0}, "libc6"},
		{program{elf.EM_AARCH64, true, little, 0, "libx.so.1", 0}, "libc6,AArch64"},
		{program{elf.EM_ARM, false, little, 0x5000400, "libx.so.1", 0}, "libc6,hard-float"},
		{program{elf.EM_ARM, false, little, 0x5000200, "libx.so.1", 0}, "libc6,soft-float"},
		{program{elf.EM_ARM, false, little, 0x4000400, "libx.so.1", 0}, "libc6"},
		{program{elf.EM_RISCV, true, little, 0x5, "libx.so.1", 0}, "libc6,double-float"},
		{program{elf.EM_RISCV, true, little, 0x1, "libx.so.1", 0}, "libc6,soft-float"},
		{program{elf.EM_RISCV, true, little, 0x3, "libx.so.1", 0}, ""}, // single-float: glibc has none
		{program{elf.EM_RISCV, true, little, 0x100, "libx.so.1", 0}, ""},
		{program{elf.EM_PPC64, true, little, 2, "libx.so.1", 0}, "libc6,64bit"},
		{program{elf.EM_PPC64, true, big, 1, "libx.so.1", 0}, "libc6,64bit"},
		{program{elf.EM_PPC, false, big, 0, "libx.so.1", 0}, "libc6"},
		{program{elf.EM_S390, true, big, 0, "libx.so.1", 0}, "libc6,64bit"},
		{program{elf.EM_S390, false, big, 0, "libx.so.1", 0}, "libc6"},
		{program{elf.EM_SPARCV9, true, big, 0, "libx.so.1", 0}, "libc6,64bit"},
		{program{elf.EM_IA_64, true, little, 0, "libx.so.1", 0}, "libc6,IA-64"},
		{program{elf.EM_LOONGARCH, true, little, 0x43, "libx.so.1", 0}, "libc6,double-float"},
		{program{elf.EM_LOONGARCH, true, little, 0x41, "libx.so.1", 0}, "libc6,soft-float"},
		{program{elf.EM_MIPS, true, little, 0, "libx.so.1", 0}, "libc6,64bit"},
		{program{elf.EM_MIPS, true, little, 0x400, "libx.so.1", 0}, "libc6,64bit,nan2008"},
		{program{elf.EM_MIPS, false, big, 0x20, "libx.so.1", 0}, "libc6,N32"},
		{program{elf.EM_MIPS, false, big, 0x420, "libx.so.1", 0}, "libc6,N32,nan2008"},
		{program{elf.EM_MIPS, false, big, 0x400, "libx.so.1", 0}, "libc6,nan2008"},
		{program{elf.EM_MIPS, false, big, 0, "libx.so.1", 0}, "libc6"},
		{program{elf.EM_386, true, little, 0, "libx.so.1", 0}, ""}, // no such thing
		{program{elf.EM_BPF, true, little, 0, "libx.so.1", 0}, ""},
	} {
		lib, err := read(c.p.build())
		if c.want == "" {
			if !errors.Is(err, ErrNotLibrary) {
				t.Errorf("%v wide=%v flags=%#x: %+v, %v; want %v", c.p.machine, c.p.wide, c.p.eflags, lib, err, ErrNotLibrary)
			}
			continue
		}
		if err != nil || lib.Flags.String() != c.want || lib.Soname != "libx.so.1" || lib.Order != c.p.order {
			t.Errorf("%v wide=%v flags=%#x: %v %q, %v; want %s", c.p.machine, c.p.wide, c.p.eflags, lib.Flags, lib.Soname, err, c.want)
		}
	}
}

func TestReadISA(t *testing.T) {
	t.Parallel()
	for needed, want := range map[uint32]uint{0: 0, 1: 0, 2: 1, 4: 2, 7: 2, 8: 3, 15: 3} {
		for _, wide := range []bool{true, false} {
			lib, err := read(program{elf.EM_X86_64, wide, binary.LittleEndian, 0, "libx.so.1", needed}.build())
			// The note of a 32-bit library is laid out for 4 bytes; it is read all the same.
			if err != nil || lib.ISA != want {
				t.Errorf("needs %#b, wide=%v: level %d, %v; want %d", needed, wide, lib.ISA, err, want)
			}
		}
	}
	if lib, err := read(program{elf.EM_AARCH64, true, binary.LittleEndian, 0, "l", 8}.build()); err != nil || lib.ISA != 0 {
		t.Errorf("ISA level of another architecture: %d, %v", lib.ISA, err)
	}
}

// TestReadCut reads a library that ends too early, at every length: it is no
// library, and nothing panics.
func TestReadCut(t *testing.T) {
	t.Parallel()
	whole := program{elf.EM_X86_64, true, binary.LittleEndian, 0, "libx.so.1", 1}.build()
	for n := range len(whole) {
		if lib, err := read(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a library: %+v", n, len(whole), lib)
		}
	}
}

// TestReadAsDebugELF compares with the standard library on every library of this
// machine.
func TestReadAsDebugELF(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("/usr/lib/*/lib*.so*")
	if len(files) == 0 {
		testenv.Lacks(t, "there are no libraries here")
	}
	var r Reader
	compared := 0
	for _, name := range files {
		f, err := elf.Open(name)
		if err != nil {
			continue
		}
		sonames, err := f.DynString(elf.DT_SONAME)
		if err == nil && f.Type == elf.ET_DYN && f.Section(".dynamic") != nil {
			want := ""
			if len(sonames) > 0 {
				want = sonames[0]
			}
			compared++
			if lib, err := readFile(&r, name); err != nil || lib.Soname != want {
				t.Errorf("%s: SONAME %q, %v; debug/elf has %q", name, lib.Soname, err, want)
			}
		}
		_ = f.Close()
	}
	t.Logf("%d libraries", compared)
}

func FuzzReadLibrary(f *testing.F) {
	f.Add(program{elf.EM_X86_64, true, binary.LittleEndian, 0, "libx.so.1", 1}.build())
	f.Add(program{elf.EM_MIPS, false, binary.BigEndian, 0x420, "libx.so.1", 0}.build())
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lib, err := read(data)
		if err == nil && (len(lib.Soname) > maxSoname || lib.Flags&0xff != libc6) {
			t.Errorf("%+v", lib)
		}
	})
}
