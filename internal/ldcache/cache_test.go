package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"
)

func readFile(r *Reader, name string) (Library, error) {
	f, err := os.Open(name)
	if err != nil {
		return Library{}, err
	}
	defer func() { _ = f.Close() }()
	return r.Read(f)
}

var some = []Entry{
	{Name: "libz.so.1", Path: "/opt/gpu/libz.so.1", Flags: 0x303},
	{Name: "libz.so.1", Path: "/lib/libz.so.1", Flags: 0x303},
	{Name: "libz.so.1", Path: "/lib32/libz.so.1", Flags: 0x003},
	{Name: "libz.so.1", Path: "/lib/glibc-hwcaps/x86-64-v3/libz.so.1.2", Flags: 0x303, Hwcaps: "x86-64-v3", ISA: 2},
	{Name: "libz.so.1", Path: "/lib/glibc-hwcaps/x86-64-v2/libz.so.1.2", Flags: 0x303, Hwcaps: "x86-64-v2", ISA: 1},
	{Name: "libz.so.10", Path: "/lib/libz.so.10", Flags: 0x303},
	{Name: "libz.so.9", Path: "/lib/libz.so.9", Flags: 0x303},
	{Name: "ld-linux-x86-64.so.2", Path: "/lib64/ld-linux-x86-64.so.2", Flags: 0x303},
}

func TestSort(t *testing.T) {
	t.Parallel()
	entries := slices.Clone(some)
	Sort(entries)
	var got []string
	for _, e := range entries {
		got = append(got, e.Path)
	}
	want := []string{
		"/lib/libz.so.10", "/lib/libz.so.9",
		// Hwcaps first, by name; then by priority of the directory; other
		// architectures last.
		"/lib/glibc-hwcaps/x86-64-v2/libz.so.1.2", "/lib/glibc-hwcaps/x86-64-v3/libz.so.1.2",
		"/opt/gpu/libz.so.1", "/lib/libz.so.1", "/lib32/libz.so.1",
		"/lib64/ld-linux-x86-64.so.2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestMarshalParse(t *testing.T) {
	t.Parallel()
	for _, order := range []Order{binary.LittleEndian, binary.BigEndian} {
		for n := range len(some) + 1 {
			entries := slices.Clone(some[:n])
			Sort(entries)
			data, err := Marshal(entries, order, "test")
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(data)
			if err != nil || len(got) != n || n > 0 && !reflect.DeepEqual(got, entries) {
				t.Errorf("%v: %v\ngot  %+v\nwant %+v", order, err, got, entries)
			}
			// The strings of a name lie at the end of its path.
			if n == 1 && bytes.Count(data, []byte("libz.so.1")) != 1 {
				t.Errorf("the name is stored twice: %q", data)
			}
			compat := slices.Concat(oldFormat(order, 3), data)
			if again, err := Parse(compat); err != nil || len(again) != n {
				t.Errorf("within the old format: %v %+v", err, again)
			}
		}
	}
}

// oldFormat is a cache of the old format with n entries, padded for a new one.
func oldFormat(order Order, n int) []byte {
	b := append([]byte(magicOld), 0)
	b = order.AppendUint32(b, uint32(n))
	b = append(b, make([]byte, n*oldEntrySize)...)
	return append(b, make([]byte, (8-len(b)%8)%8)...)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	entries := slices.Clone(some)
	Sort(entries)
	whole, err := Marshal(entries, binary.LittleEndian, "test")
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if _, err := Parse(whole[:n]); err == nil && n < len(whole)-len("test") {
			t.Fatalf("the first %d of %d bytes are a cache", n, len(whole))
		}
	}
	for name, change := range map[string]func([]byte){
		"magic":                func(b []byte) { b[3] = 'x' },
		"version":              func(b []byte) { b[19] = '2' },
		"invalid":              func(b []byte) { b[28] = 1 },
		"other endianness":     func(b []byte) { b[28] = 3 },
		"too many entries":     func(b []byte) { b[23] = 0xff },
		"a name outside":       func(b []byte) { b[headerSize+7] = 0x7f },
		"a path outside":       func(b []byte) { b[headerSize+11] = 0x7f },
		"extensions outside":   func(b []byte) { b[35] = 0x7f },
		"extensions unaligned": func(b []byte) { b[32]++ },
		"extensions' magic":    func(b []byte) { b[binary.LittleEndian.Uint32(b[32:])]++ },
		"too many extensions":  func(b []byte) { b[binary.LittleEndian.Uint32(b[32:])+7] = 0xff },
		"an extension outside": func(b []byte) {
			b[binary.LittleEndian.Uint32(b[32:])+8+8+3] = 0x7f
		},
		"hwcaps without a name": func(b []byte) { b[headerSize+2*entrySize+16] = 9 },
	} {
		data := bytes.Clone(whole)
		change(data)
		if got, err := Parse(data); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

// TestParseBounds: a file is not read into much more memory, or for much longer,
// than it is large: its entries may share strings, its extensions may lie in each
// other.
func TestParseBounds(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	header := func(entries, extension int) []byte {
		b := append([]byte(magic), make([]byte, headerSize-len(magic))...)
		le.PutUint32(b[20:], uint32(entries))
		b[28] = littleEndian
		le.PutUint32(b[32:], uint32(extension))
		return b
	}
	const many, long = 20_000, 1 << 20
	first := headerSize + many*entrySize
	data := header(many, 0)
	for range many {
		data = le.AppendUint32(data, uint32(libc6))
		data = le.AppendUint32(le.AppendUint32(data, uint32(first)), uint32(first))
		data = append(data, make([]byte, 12)...)
	}
	data = append(append(data, bytes.Repeat([]byte("a"), long)...), 0)
	if _, err := Parse(data); !errors.Is(err, ErrFormat) {
		t.Errorf("names of %d bytes: %v", long, err)
	}

	data = le.AppendUint32(le.AppendUint32(header(0, headerSize), extensionMagic), many)
	for range many {
		for _, v := range []uint32{tagHwcaps, 0, 20, many * sectionSize} {
			data = le.AppendUint32(data, v)
		}
	}
	if _, err := Parse(data); !errors.Is(err, ErrFormat) {
		t.Errorf("%d lists of hwcaps subdirectories: %v", many, err)
	}
}

// listing prints entries as "ldconfig -p" does.
func listing(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		hwcap := ""
		if e.Hwcaps != "" {
			hwcap = fmt.Sprintf(", hwcap: %q", e.Hwcaps)
		}
		fmt.Fprintf(&b, "\t%s (%v%s) => %s\n", e.Name, e.Flags, hwcap, e.Path)
	}
	return b.String()
}

// TestParseAsLdconfig reads this machine's cache as ldconfig does, and puts it
// into ldconfig's order again after it was shuffled.
func TestParseAsLdconfig(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		testenv.Lacks(t, err)
	}
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		testenv.Lacks(t, "no ldconfig: ", err)
	}
	var want strings.Builder
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "\t") {
			want.WriteString(line)
		}
	}
	entries, err := Parse(data)
	if err != nil || listing(entries) != want.String() {
		t.Fatalf("%v\ngot  %s\nwant %s", err, listing(entries), want.String())
	}
	// Names that occur once have one place; those of several directories keep
	// their order, which only ldconfig's configuration tells.
	seen := map[string]bool{}
	entries = slices.DeleteFunc(entries, func(e Entry) bool {
		again := seen[e.Name]
		seen[e.Name] = true
		return again
	})
	shuffled := slices.Clone(entries)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	Sort(shuffled)
	if listing(shuffled) != listing(entries) {
		t.Errorf("sorted:\n%s\nwant\n%s", listing(shuffled), listing(entries))
	}
}

func TestCompareNames(t *testing.T) {
	t.Parallel()
	ascending := []string{"", "ld", "lib", "libA", "liba", "liba.so.2", "liba.so.9", "liba.so.10", "liba.so.010x", "libaa", "lib2", "lib10"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := CompareNames(a, b); got < 0 != (i < j) || got == 0 != (i == j) {
				t.Errorf("CompareNames(%q, %q) = %d", a, b, got)
			}
		}
	}
	if CompareNames("liba.so.010", "liba.so.10") != 0 {
		t.Error("numbers of one value differ")
	}
}

func TestIsLibrary(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"libz.so": true, "libz.so.1": true, "ld-linux.so.2": true, "ld-2.31.so": true, "ld.so.1": true, "ld64.so.2": true,
		"lib.so": true, "libz.a": false, "xlibz.so": false, "ld.so": false, "": false,
		"libz.so.1;5f3a": false, "libz.so.1.dpkg-new": false, "libz.so.1.dpkg-tmp": false,
		"libz.so.1.#prelink#": false, "libz.so.1.#prelink#.a1b2c3": false, "libz.so.prelink": true,
	} {
		if got := IsLibrary(name); got != want {
			t.Errorf("IsLibrary(%q) = %v", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	entries := slices.Clone(some)
	Sort(entries)
	for _, order := range []Order{binary.LittleEndian, binary.BigEndian} {
		data, err := Marshal(entries, order, "fuzz")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(slices.Concat(oldFormat(order, 2), data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Marshal(entries, binary.LittleEndian, "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(again)
		if err != nil || len(got) != len(entries) {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		for i := range got {
			if got[i] != entries[i] {
				t.Fatalf("entry %d: %+v, was %+v", i, got[i], entries[i])
			}
		}
	})
}

func FuzzCompareNames(f *testing.F) {
	f.Add("libz.so.1", "libz.so.10")
	f.Add("lib9", "liba")
	f.Fuzz(func(t *testing.T, a, b string) {
		// The linker halves the cache by this order: it has to be one.
		x, y := CompareNames(a, b), CompareNames(b, a)
		if strings.ContainsRune(a+b, 0) || len(a) > 9 || len(b) > 9 {
			return // no file has such a name; longer numbers wrap, as in the linker
		}
		if x < 0 != (y > 0) || x == 0 != (y == 0) {
			t.Errorf("%q, %q: %d, and the other way %d", a, b, x, y)
		}
	})
}
