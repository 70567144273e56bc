package ldcache

import (
	"debug/elf"
	"fmt"
)

// Flags say for which dynamic linker a library is: the low byte is 3 for the
// GNU C library since version 2, the next says which architecture, where one
// machine runs more than one.
type Flags uint32

const libc6 Flags = 0x0003

// The architectures, in glibc's numbers. What is not here has none.
const (
	sparc64      Flags = 0x0100
	ia64         Flags = 0x0200
	x86_64       Flags = 0x0300
	s390x        Flags = 0x0400
	ppc64        Flags = 0x0500
	mipsN32      Flags = 0x0600
	mipsN64      Flags = 0x0700
	x32          Flags = 0x0800
	armHard      Flags = 0x0900
	aarch64      Flags = 0x0a00
	armSoft      Flags = 0x0b00
	mipsNaN      Flags = 0x0c00
	mipsN32NaN   Flags = 0x0d00
	mipsN64NaN   Flags = 0x0e00
	riscvSoft    Flags = 0x0f00
	riscvDouble  Flags = 0x1000
	loongSoft    Flags = 0x1100
	loongDouble  Flags = 0x1200
	architecture Flags = 0xff00
)

var names = map[Flags]string{
	sparc64: "64bit", ia64: "IA-64", x86_64: "x86-64", s390x: "64bit", ppc64: "64bit",
	mipsN32: "N32", mipsN64: "64bit", x32: "x32", armHard: "hard-float", aarch64: "AArch64",
	armSoft: "soft-float", mipsNaN: "nan2008", mipsN32NaN: "N32,nan2008", mipsN64NaN: "64bit,nan2008",
	riscvSoft: "soft-float", riscvDouble: "double-float", loongSoft: "soft-float", loongDouble: "double-float",
}

// String is how "ldconfig -p" prints them, such as libc6,x86-64.
func (f Flags) String() string {
	kind := "libc6"
	if f&0xff != libc6 {
		kind = "unknown or unsupported flag"
	}
	switch name, ok := names[f&architecture]; {
	case ok:
		return kind + "," + name
	case f&architecture == 0:
		return kind
	default:
		return fmt.Sprintf("%s,%d", kind, uint32(f&architecture))
	}
}

// The bits of an ELF header's flags that tell the architectures apart.
const (
	armVersion, armVersion5  = 0xff000000, 0x05000000
	armFloatSoft             = 0x200
	armFloatHard             = 0x400
	riscvCompressed          = 0x1
	riscvFloat               = 0x6
	riscvFloatDouble         = 0x4
	loongABI                 = 0x7
	loongABISoft             = 0x1
	loongABIDouble           = 0x3
	loongObjectV1            = 0x40
	mipsABI2, mipsNaN2008    = 0x20, 0x400
	machineLoong             = elf.EM_LOONGARCH
	machineIA64, machineS390 = elf.EM_IA_64, elf.EM_S390
)

// flagsOf is the flags of a library for that machine; false if glibc has no
// dynamic linker for it.
func flagsOf(machine elf.Machine, wide bool, eflags uint32) (Flags, bool) {
	if wide {
		f, ok := wideFlags(machine, eflags)
		return libc6 | f, ok
	}
	f, ok := narrowFlags(machine, eflags)
	return libc6 | f, ok
}

func wideFlags(machine elf.Machine, eflags uint32) (Flags, bool) {
	switch machine {
	case elf.EM_X86_64:
		return x86_64, true
	case elf.EM_AARCH64:
		return aarch64, true
	case elf.EM_RISCV:
		return riscv(eflags)
	case elf.EM_PPC64:
		return ppc64, true
	case machineS390:
		return s390x, true
	case elf.EM_SPARCV9:
		return sparc64, true
	case machineIA64:
		return ia64, true
	case machineLoong:
		return loong(eflags)
	case elf.EM_MIPS:
		if eflags&mipsNaN2008 != 0 {
			return mipsN64NaN, true
		}
		return mipsN64, true
	}
	return 0, false
}

func narrowFlags(machine elf.Machine, eflags uint32) (Flags, bool) {
	switch machine {
	case elf.EM_386, elf.EM_PPC, machineS390, elf.EM_SPARC:
		return 0, true
	case elf.EM_X86_64:
		return x32, true
	case elf.EM_ARM:
		return arm(eflags), true
	case elf.EM_RISCV:
		return riscv(eflags)
	case elf.EM_MIPS:
		return mips(eflags), true
	}
	return 0, false
}

func arm(eflags uint32) Flags {
	switch {
	case eflags&armVersion != armVersion5:
		return 0
	case eflags&armFloatHard != 0:
		return armHard
	case eflags&armFloatSoft != 0:
		return armSoft
	default:
		return 0
	}
}

func riscv(eflags uint32) (Flags, bool) {
	switch {
	case eflags&^(riscvCompressed|riscvFloat) != 0:
		return 0, false
	case eflags&riscvFloat == 0:
		return riscvSoft, true
	case eflags&riscvFloat == riscvFloatDouble:
		return riscvDouble, true
	default:
		return 0, false
	}
}

func loong(eflags uint32) (Flags, bool) {
	switch eflags &^ loongObjectV1 {
	case loongABISoft:
		return loongSoft, true
	case loongABIDouble:
		return loongDouble, true
	default:
		return 0, false
	}
}

func mips(eflags uint32) Flags {
	n32, nan := eflags&mipsABI2 != 0, eflags&mipsNaN2008 != 0
	switch {
	case n32 && nan:
		return mipsN32NaN
	case n32:
		return mipsN32
	case nan:
		return mipsNaN
	default:
		return 0
	}
}
