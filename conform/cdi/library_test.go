package cdi

import (
	"encoding/json"
	"errors"
	"io/fs"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/fairlead/fairlead/cdi"
)

// library is our own library as an injector.
type library struct{}

func (library) Inject(dirs []string, config []byte, devices []string) ([]byte, error) {
	var c oci.Spec
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	if err := cdi.NewIndex(dirs).Inject(&c, devices...); err != nil {
		return nil, err
	}
	return json.Marshal(&c)
}

func (library) Class(err error) Class {
	for _, c := range []struct {
		err   error
		class Class
	}{
		{cdi.ErrUnknownKind, UnknownKind}, {cdi.ErrUnknownDevice, UnknownDevice}, {cdi.ErrAmbiguous, Ambiguous},
		{cdi.ErrConflict, Conflict}, {fs.ErrNotExist, Host}, {cdi.ErrInvalid, BadName},
	} {
		if errors.Is(err, c.err) {
			return c.class
		}
	}
	return ""
}

func TestLibrary(t *testing.T) { Run(t, library{}) }
