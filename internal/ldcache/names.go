package ldcache

import "strings"

// CompareNames orders names as the dynamic linker does: character by character,
// but numbers by their value, so that libx.so.9 comes before libx.so.10. It is
// negative, zero or positive as a is before, like, or after b.
func CompareNames(a, b string) int {
	for a != "" {
		switch {
		case isDigit(a):
			if !isDigit(b) {
				return 1
			}
			var x, y int32
			x, a = number(a)
			y, b = number(b)
			if x != y {
				return int(x - y) // wraps as it does in the linker
			}
		case isDigit(b):
			return -1
		case b == "":
			return int(a[0])
		case a[0] != b[0]:
			return int(a[0]) - int(b[0])
		default:
			a, b = a[1:], b[1:]
		}
	}
	if b != "" {
		return -int(b[0])
	}
	return 0
}

func isDigit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

// number is the number at the start of s, and what follows.
func number(s string) (int32, string) {
	var n int32
	for isDigit(s) {
		n = n*10 + int32(s[0]-'0')
		s = s[1:]
	}
	return n, s
}

// IsLibrary says whether a file of that name may be a shared library or the
// dynamic linker: lib*.so*, ld-*.so*, ld.so.*, ld64.so.*. Files that a package
// manager has not finished are none.
func IsLibrary(name string) bool {
	switch {
	case strings.HasPrefix(name, "ld.so."), strings.HasPrefix(name, "ld64.so."):
	case !strings.HasPrefix(name, "lib") && !strings.HasPrefix(name, "ld-"):
		return false
	case !strings.Contains(name, ".so"):
		return false
	}
	return !IsUnfinished(name)
}

// IsUnfinished says whether dpkg, rpm or prelink name a file so while they
// write it.
func IsUnfinished(name string) bool {
	const prelink = ".#prelink#"
	return strings.ContainsRune(name, ';') ||
		strings.HasSuffix(name, ".dpkg-new") || strings.HasSuffix(name, ".dpkg-tmp") ||
		strings.HasSuffix(name, prelink) ||
		len(name) >= len(prelink)+7 && strings.HasPrefix(name[len(name)-len(prelink)-7:], prelink+".")
}
