package hook

import (
	"encoding/json"
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
	Version string `json:"ociVersion"`
	ID      string `json:"id"`
	Status  string `json:"status"`
	Bundle  string `json:"bundle"`
}

// Mount is one of a container's mounts.
type Mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Options     []string `json:"options"`
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
	var s State
	if len(data) > maxJSON {
		return State{}, fmt.Errorf("read container state: it has more than %d bytes", maxJSON)
	}
	if len(data) == 0 {
		return State{}, errors.New("read container state: stdin is empty: an OCI runtime calls this program, and says there which container it is about")
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return State{}, fmt.Errorf("read container state: %w", err)
	}
	switch {
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

// Open holds the root of the container, which its bundle's configuration names.
// Where the hook runs, and from which directory, does not matter.
func (s State) Open() (*Root, error) {
	data, err := readHostFile(filepath.Join(s.Bundle, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("read configuration of container %s: %w", s.ID, err)
	}
	var config struct {
		Root struct {
			Path string `json:"path"`
		} `json:"root"`
		Mounts []Mount `json:"mounts"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("read configuration of container %s: %w", s.ID, err)
	}
	root := config.Root.Path
	if root == "" || strings.ContainsRune(root, 0) {
		return nil, fmt.Errorf("read configuration of container %s: root.path %q is no path", s.ID, root)
	}
	if !filepath.IsAbs(root) {
		root = filepath.Join(s.Bundle, root)
	}
	return OpenRoot(root, config.Mounts)
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
