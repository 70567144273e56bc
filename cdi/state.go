package cdi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The persisted index, all numbers as varints, all texts with their length
// before them:
//
//	magic, number of directories, and for each
//	    path, number of files, and for each
//	        name, dev, ino, size, mtime, ctime, link, kind, number of devices, their names
//	CRC-32 of all before, 4 bytes
//
// The number in the magic is another whenever the rules for a spec get stricter:
// files in it are not checked again.
//
// Files that are invalid, or that may have changed after they were read, are not
// in it.
const stateMagic = "CDI index 2\n"

// maxState bounds what is read of a state file.
const maxState = 256 << 20

// writeState saves what is known, in one step.
func writeState(path string, s *Snapshot) error {
	b := []byte(stateMagic)
	b = binary.AppendUvarint(b, uint64(len(s.dirs)))
	for _, d := range s.dirs {
		b = appendText(b, d.dir.path)
		var files []*file
		for _, f := range d.files {
			if f.lasting() {
				files = append(files, f)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(files)))
		for _, f := range files {
			b = f.appendTo(b)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return saveState(path, sealState(b))
}

// lasting tells a file that the next process can take as known.
func (f *file) lasting() bool { return f.bad == nil && !f.racy }

// sealState appends the checksum.
func sealState(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func (f *file) appendTo(b []byte) []byte {
	b = appendText(b, f.name)
	link := int64(0)
	if f.link {
		link = 1
	}
	for _, n := range []int64{f.id.dev, f.id.ino, f.id.size, f.id.mtime, f.id.ctime, link} {
		b = binary.AppendVarint(b, n)
	}
	b = appendText(b, f.kind)
	b = binary.AppendUvarint(b, uint64(len(f.devices)))
	for _, name := range f.devices {
		b = appendText(b, name)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// saveState needs no fsync: after a power cut the checksum tells, and all is
// read again.
func saveState(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// readState is what the last process knew of the files of each directory. A
// state that is absent, damaged, of other directories or in reach of somebody
// else is empty.
func readState(path string, dirs []*specDir) []map[string]*file {
	known := make([]map[string]*file, len(dirs))
	if path == "" {
		return known
	}
	b, err := readOwn(path)
	if err != nil {
		return known
	}
	if files, ok := parseState(b, dirs); ok {
		return files
	}
	return known
}

// readOwn reads a file of the user's that none but the user, and root, can write.
func readOwn(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() || st.Size > maxState {
		return nil, os.ErrPermission
	}
	b := make([]byte, st.Size)
	_, err = io.ReadFull(f, b)
	return b, err
}

func parseState(b []byte, dirs []*specDir) ([]map[string]*file, bool) {
	end := len(b) - 4
	if end < 0 || !bytes.HasPrefix(b, []byte(stateMagic)) || crc32.ChecksumIEEE(b[:end]) != binary.BigEndian.Uint32(b[end:]) {
		return nil, false
	}
	r := stateReader{rest: unsafeString(b[len(stateMagic):end])}
	known := make([]map[string]*file, len(dirs))
	if n := r.count(); n != len(dirs) {
		return nil, false
	}
	for i, d := range dirs {
		if r.text() != d.path {
			return nil, false
		}
		n := r.count()
		known[i] = make(map[string]*file, n)
		for range n {
			f := r.file(d)
			known[i][f.name] = f
		}
	}
	return known, !r.bad && r.rest == ""
}

// stateReader reads a state; bad is set, and all else is zero, after its end.
type stateReader struct {
	rest string
	bad  bool
}

func (r *stateReader) file(d *specDir) *file {
	f := &file{dir: d, name: r.text()}
	for _, n := range []*int64{&f.id.dev, &f.id.ino, &f.id.size, &f.id.mtime, &f.id.ctime} {
		*n = r.number()
	}
	f.link = r.number() != 0
	f.kind = r.text()
	f.devices = make([]string, r.count())
	for i := range f.devices {
		f.devices[i] = r.text()
	}
	return f
}

func (r *stateReader) number() int64 {
	n, size := binary.Varint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 {
		r.bad, r.rest = true, ""
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// count is the number of things that follow, none of which takes less than a
// byte.
func (r *stateReader) count() int {
	n, size := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(r.rest)-size) {
		r.bad, r.rest = true, ""
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *stateReader) text() string {
	n := r.count()
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}
