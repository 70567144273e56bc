// Package ldcache knows what the dynamic linker of the GNU C library keeps
// about shared libraries: the file /etc/ld.so.cache, the file /etc/ld.so.conf
// that says which directories it covers, and what an ELF file says of itself.
//
// It reads bytes and writes bytes. It opens nothing, so that whoever holds a
// container's root directory decides alone what is opened. Everything it reads
// may come from an image that means harm: sizes and offsets are checked, and
// what is malformed is an error, never a panic.
package ldcache
