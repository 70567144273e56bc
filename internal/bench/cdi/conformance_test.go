package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	conform "github.com/fairlead/fairlead/conform/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"
)

// their is upstream's library as an injector.
type their struct{}

func (their) Inject(dirs []string, config []byte, devices []string) (out []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanic, r)
		}
	}()
	cache, err := upstream.NewCache(upstream.WithSpecDirs(dirs...), upstream.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	var c oci.Spec
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if _, err := cache.InjectDevices(&c, devices...); err != nil {
		return nil, err
	}
	return json.Marshal(&c)
}

// TestConformance: upstream's library fails those cases of conform/cdi that are
// listed, and no others.
func TestConformance(t *testing.T) {
	cases, err := conform.Cases()
	if err != nil {
		t.Fatal(err)
	}
	d := differences{}
	for _, c := range cases {
		dir := t.TempDir()
		switch c.Name {
		case "endless":
			d.found(c.Name, "it would take all memory")
			continue
		case "fifo":
			err = hangs(t, dir, c)
		default:
			err = c.Check(dir, their{})
		}
		if err != nil {
			d.found(c.Name, err.Error())
		}
	}
	t.Logf("%d of %d cases fail", len(d), len(cases))
	d.check(t, rows(t, "Cases of conform/cdi that upstream fails"))
}

// hangs runs a case whose FIFO upstream waits on, until nothing has come for a
// while.
func hangs(t *testing.T, dir string, c *conform.Case) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Check(dir, their{}) }()
	select {
	case err := <-done:
		return err
	case <-time.After(500 * time.Millisecond):
	}
	// Whoever reads a FIFO goes on when somebody has opened and closed it.
	for {
		for _, name := range []string{"0/fifo.json", "0/fifo.yaml"} {
			if f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
				_ = f.Close()
			}
		}
		select {
		case <-done:
			return errors.New("it waits for somebody to write to a FIFO")
		case <-time.After(time.Millisecond):
		}
	}
}
