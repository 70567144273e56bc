package cdi_test

import (
	"fmt"
	"log"
	"os"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fairlead/fairlead/cdi"
)

// A vendor writes a spec, and a runtime injects a device of it.
func Example() {
	dir, err := os.MkdirTemp("", "cdi")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	spec := &cdi.Spec{
		Kind: "vendor.com/light",
		Devices: []cdi.Device{{
			Name:           "red",
			ContainerEdits: cdi.ContainerEdits{Env: []string{"LIGHT=red"}},
		}},
	}
	if err := cdi.Write(dir, cdi.FileName(spec.Kind, ""), spec); err != nil {
		log.Fatal(err)
	}

	var config oci.Spec
	index := cdi.NewIndex([]string{dir})
	if err := index.Inject(&config, "vendor.com/light=red"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(config.Process.Env)
	fmt.Println(index.Inject(&config, "vendor.com/light=green"))
	// Output:
	// [LIGHT=red]
	// device "vendor.com/light=green": no CDI spec has that device; there are red
}

func ExampleParse() {
	_, err := cdi.Parse("light.json", []byte(`{
  "cdiVersion": "0.4.0",
  "kind": "vendor.com/light",
  "devices": [{"name": "1st", "containerEdits": {"env": ["LIGHT"]}}]
}`))
	fmt.Println(err)
	// Output:
	// light.json:4:24: $.devices[0].name: a device name that begins with a digit came with version 0.5.0, but cdiVersion is 0.4.0 [version-field]; write "cdiVersion": "0.5.0"
	// light.json:4:58: $.devices[0].containerEdits.env[0]: "LIGHT" is not of the form NAME=VALUE [env]; write "NAME=VALUE"
}
