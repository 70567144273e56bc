package mount

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// entry is one line of /proc/PID/mountinfo, as far as it is of use.
type entry struct {
	id     int
	device string // major:minor of the file system, as mountinfo has it
	root   string // the directory of that file system that is mounted
	point  string // where, seen from the process's root
	fsType string // such as ext4; "" if the line does not say
}

// parseMountinfo reads the whole of a mountinfo file (proc_pid_mountinfo(5)).
func parseMountinfo(text string) ([]entry, error) {
	var entries []entry
	n := 0
	for line := range strings.Lines(text) {
		n++
		e, err := parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", n, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// parseLine reads "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw":
// any number of optional fields stand before the dash.
func parseLine(line string) (entry, error) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 6 {
		return entry{}, errors.New("it has less than six fields")
	}
	id, err := strconv.Atoi(fields[0])
	if err != nil {
		return entry{}, fmt.Errorf("mount id: %w", err)
	}
	e := entry{id: id, device: fields[2], root: unescape(fields[3]), point: unescape(fields[4])}
	if _, rest, ok := strings.Cut(fields[5], " - "); ok {
		e.fsType, _, _ = strings.Cut(rest, " ")
	}
	return e, nil
}

// unescape undoes the kernel's \040 for a space and its like.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
