package hook

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// State is the OCI runtime's message to a hook, as far as it is of use. The
// process id in it is not: the hook runs in the container's namespaces, where
// the id is one of the container's and /proc still the host's.
type State struct {
	Version string
	ID      string
	Status  string
	Bundle  string
}

// Mount is one of a container's mounts.
type Mount struct {
	Destination string
	Type        string
	Options     []string
}

// private says whether it is a file system that was made for this container and
// has no other view: what a bind mount, /sys or even a fresh /proc shows is the
// host's too.
func (m Mount) private() bool {
	return slices.Contains([]string{"tmpfs", "ramfs", "overlay"}, m.Type) &&
		!slices.ContainsFunc(m.Options, func(o string) bool { return o == "bind" || o == "rbind" })
}

const maxJSON = 32 << 20

// ReadState reads and checks the state that a runtime gives a hook on its stdin.
func ReadState(r io.Reader) (State, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxJSON+1))
	if err != nil {
		return State{}, fmt.Errorf("read container state: %w", err)
	}
	if len(data) > maxJSON {
		return State{}, fmt.Errorf("read container state: it has more than %d bytes", maxJSON)
	}
	if len(data) == 0 {
		return State{}, errors.New("read container state: stdin is empty: an OCI runtime calls this program, and says there which container it is about")
	}
	s, err := parseState(data)
	switch {
	case err != nil:
		return State{}, fmt.Errorf("read container state: %w", err)
	case s.Version == "":
		return State{}, errors.New("read container state: it has no ociVersion")
	case s.ID == "":
		return State{}, errors.New("read container state: it has no id")
	case !filepath.IsAbs(s.Bundle):
		return State{}, fmt.Errorf("read container state: bundle %q is no absolute path", s.Bundle)
	case s.Status == "running" || s.Status == "stopped":
		return State{}, fmt.Errorf("container %s is %s: this is a createContainer hook", s.ID, s.Status)
	}
	return s, nil
}

func parseState(data []byte) (State, error) {
	var st State
	s := scanner{data: data}
	err := s.document(func(name string) error {
		switch name {
		case "ociVersion":
			return s.text(&st.Version)
		case "id":
			return s.text(&st.ID)
		case "status":
			return s.text(&st.Status)
		case "bundle":
			return s.text(&st.Bundle)
		}
		return s.skip()
	})
	return st, err
}

// parseConfig reads root.path and the mounts of a container's configuration.
func parseConfig(data []byte) (root string, mounts []Mount, err error) {
	s := scanner{data: data}
	err = s.document(func(name string) error {
		switch {
		case name == "root":
			return s.object(func(name string) error {
				if name == "path" {
					return s.text(&root)
				}
				return s.skip()
			})
		case name == "mounts" && mounts != nil:
			return errTwice
		case name == "mounts":
			return s.array(func() error {
				m, err := s.mount()
				mounts = append(mounts, m)
				return err
			})
		}
		return s.skip()
	})
	return root, mounts, err
}

func (s *scanner) mount() (Mount, error) {
	var m Mount
	err := s.object(func(name string) error {
		switch name {
		case "destination":
			return s.text(&m.Destination)
		case "type":
			return s.text(&m.Type)
		case "options":
			return s.array(func() error {
				m.Options = append(m.Options, "")
				return s.text(&m.Options[len(m.Options)-1])
			})
		}
		return s.skip()
	})
	return m, err
}

// Open holds the root of the container, which its bundle's configuration names.
// Where the hook runs, and from which directory, does not matter.
func (s State) Open() (*Root, error) {
	data, err := readHostFile(filepath.Join(s.Bundle, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("read configuration of container %s: %w", s.ID, err)
	}
	root, mounts, err := parseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("read configuration of container %s: %w", s.ID, err)
	}
	if root == "" || strings.ContainsRune(root, 0) {
		return nil, fmt.Errorf("read configuration of container %s: root.path %q is no path", s.ID, root)
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(s.Bundle, root)
	}
	return OpenRoot(root, mounts)
}

// readHostFile reads a file that the runtime wrote; it is no less checked.
func readHostFile(name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("open %s: %w", name, ErrNotRegular)
	}
	data, err := readAll(fd, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}
