package main

import (
	"context"
	"fmt"

	"github.com/fairlead/fairlead/cdi"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	upstream "tags.cncf.io/container-device-interface/pkg/cdi"
)

// library is one of the two that are compared.
type library interface {
	inject(c *oci.Spec, devices ...string) error
	has(device string) bool
}

// How a library is to load a directory.
type mode struct {
	dir   string
	state string // file of the persisted index; "" for none
	watch bool   // keep up to date
}

const (
	ours   = "fairlead"
	theirs = "upstream"
)

// load makes a library ready to inject.
func load(name string, m mode) (library, error) {
	if name == theirs {
		cache, err := upstream.NewCache(upstream.WithSpecDirs(m.dir), upstream.WithAutoRefresh(m.watch))
		return theirLibrary{cache}, err
	}
	var options []cdi.Option
	if m.state != "" {
		options = append(options, cdi.WithState(m.state))
	}
	x := cdi.NewIndex([]string{m.dir}, options...)
	x.Snapshot()
	if m.watch {
		go func() { _ = x.Watch(context.Background()) }() // until the process ends
	}
	return ourLibrary{x}, nil
}

type ourLibrary struct{ x *cdi.Index }

func (l ourLibrary) inject(c *oci.Spec, devices ...string) error { return l.x.Inject(c, devices...) }

func (l ourLibrary) has(device string) bool {
	_, err := l.x.Resolve(device)
	return err == nil
}

type theirLibrary struct{ c *upstream.Cache }

func (l theirLibrary) inject(c *oci.Spec, devices ...string) error {
	_, err := l.c.InjectDevices(c, devices...)
	return err
}

func (l theirLibrary) has(device string) bool { return l.c.GetDevice(device) != nil }

// check says whether a library loaded a directory of n specs.
func check(l library, n int) error {
	for _, i := range []int{0, n * devicesPerSpec / 2, n*devicesPerSpec - 1} {
		if !l.has(device(i)) {
			return fmt.Errorf("%s is not there", device(i))
		}
	}
	return nil
}
