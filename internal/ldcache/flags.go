package ldcache

import "fmt"

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

// Machines of ELF headers. debug/elf has these numbers too, but with them come
// its tables and those of what it imports, at every start of a container.
const (
	machineSPARC   = 2
	machine386     = 3
	machineMIPS    = 8
	machinePPC     = 20
	machinePPC64   = 21
	machineS390    = 22
	machineARM     = 40
	machineSPARCV9 = 43
	machineIA64    = 50
	machineX86_64  = 62
	machineAARCH64 = 183
	machineRISCV   = 243
	machineLoong   = 258
)

// The bits of an ELF header's flags that tell the architectures apart.
const (
	armVersion       = 0xff000000
	armVersion5      = 0x05000000
	armFloatSoft     = 0x200
	armFloatHard     = 0x400
	riscvCompressed  = 0x1
	riscvFloat       = 0x6
	riscvFloatDouble = 0x4
	loongSoftFloat   = 0x1
	loongDoubleFloat = 0x3
	loongObjectV1    = 0x40
	mipsABI2         = 0x20
	mipsNaN2008      = 0x400
)

// flagsOf is the flags of a library for that machine; false if glibc has no
// dynamic linker for it.
func flagsOf(machine uint16, wide bool, eflags uint32) (Flags, bool) {
	if wide {
		f, ok := wideFlags(machine, eflags)
		return libc6 | f, ok
	}
	f, ok := narrowFlags(machine, eflags)
	return libc6 | f, ok
}

func wideFlags(machine uint16, eflags uint32) (Flags, bool) {
	switch machine {
	case machineX86_64:
		return x86_64, true
	case machineAARCH64:
		return aarch64, true
	case machineRISCV:
		return riscv(eflags)
	case machinePPC64:
		return ppc64, true
	case machineS390:
		return s390x, true
	case machineSPARCV9:
		return sparc64, true
	case machineIA64:
		return ia64, true
	case machineLoong:
		return loong(eflags)
	case machineMIPS:
		if eflags&mipsNaN2008 != 0 {
			return mipsN64NaN, true
		}
		return mipsN64, true
	}
	return 0, false
}

func narrowFlags(machine uint16, eflags uint32) (Flags, bool) {
	switch machine {
	case machine386, machinePPC, machineS390, machineSPARC:
		return 0, true
	case machineX86_64:
		return x32, true
	case machineARM:
		return arm(eflags), true
	case machineRISCV:
		return riscv(eflags)
	case machineMIPS:
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
	case loongSoftFloat:
		return loongSoft, true
	case loongDoubleFloat:
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
