package device

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/fairlead/fairlead/internal/testenv"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fairlead/fairlead/cdi"
)

// A device of this host, found, written as a spec and injected, is in the
// container's configuration with the numbers that it has now.
func TestInjectRealDevice(t *testing.T) {
	h := Host{}
	found := find(t, h, "/dev/null")
	found = append(found, find(t, h, "/dev/zero")...)
	if len(found) != 2 {
		testenv.Lacks(t, "there is no /dev/null or /dev/zero")
	}
	dir := t.TempDir()
	if err := cdi.Write(dir, "test.json", h.Spec("fairlead.dev/char", found)); err != nil {
		t.Fatal(err)
	}
	config := &oci.Spec{Linux: &oci.Linux{}}
	if err := cdi.NewIndex([]string{dir}).Inject(config, "fairlead.dev/char=zero"); err != nil {
		t.Fatal(err)
	}
	if d := config.Linux.Devices; len(d) != 1 || d[0].Path != "/dev/zero" || d[0].Type != "c" || d[0].Major != 1 || d[0].Minor != 5 {
		t.Errorf("devices %+v", d)
	}
	if r := config.Linux.Resources.Devices; len(r) != 1 || !r[0].Allow || r[0].Access != "rw" || *r[0].Minor != 5 {
		t.Errorf("rules %+v", r)
	}
}

func TestDriverRootGone(t *testing.T) {
	if _, err := (Host{DriverRoot: "/no/such/driver"}).List(context.Background()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that it does not exist", err)
	}
}
