package hook

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// ParseMode reads an octal mode such as 755. Bits above 1777 are refused: a hook
// makes no program run as somebody else.
func ParseMode(s string) (uint32, error) {
	mode, err := strconv.ParseUint(s, 8, 32)
	if err != nil || mode > 0o1777 {
		return 0, fmt.Errorf("mode %q: want an octal number up to 1777", s)
	}
	return uint32(mode), nil
}

// Chmod gives every path that mode. Links are followed within the container.
// What is on a mount of the host, such as a device node that is bind mounted into
// a rootless container, is the host's and stays as it is: an error, unless it has
// the mode already. So is a file with several names, one of which may be outside.
func (r *Root) Chmod(paths []string, mode uint32) error {
	for _, p := range paths {
		if err := r.chmod(p, mode); err != nil {
			return fmt.Errorf("change mode of %s to %#o: %w", p, mode, err)
		}
	}
	return nil
}

func (r *Root) chmod(name string, mode uint32) error {
	fd, err := r.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return err
	}
	if st.Mode&0o7777 == mode {
		return nil
	}
	if err := r.writable(fd); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		return errors.New("it has several names (hard links)")
	}
	return r.fchmod(fd, mode)
}

// fchmod changes the mode of what an O_PATH descriptor is of. Linux does that
// directly since 6.6, before only by the descriptor's name in /proc.
func (r *Root) fchmod(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		err = unix.Fchmodat(r.proc, strconv.Itoa(fd), mode, 0)
	}
	return err
}
