package claim

import (
	"bytes"
	"encoding/json"
	"time"
)

// Request is what a person asks for when stating a claim. Asking again with
// the same arguments is answered with the claim that exists; with other
// arguments it is a conflict.
type Request struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	// Class is the bucket class; empty is the one named "default".
	Class string `json:"class,omitempty"`
	// Existing is the id of a bucket that exists already (brownfield).
	Existing string `json:"existing,omitempty"`
	// Driver and DeletionPolicy override the class's; empty is the class's.
	Driver         string         `json:"driver,omitempty"`
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Parameters are laid over the class's.
	Parameters map[string]string `json:"parameters,omitempty"`
	// Access is the first access; nil makes the one named "default" with
	// ReadWrite. NoAccess makes none (a BucketClaim manifest alone).
	Access   *AccessSpec `json:"access,omitempty"`
	NoAccess bool        `json:"noAccess,omitempty"`
	// Device is what is asked of a device; of KindDevice alone, which has none of
	// the fields above but its name.
	Device *DeviceSpec `json:"device,omitempty"`
}

// ReleaseRequest says how a claim is let go.
type ReleaseRequest struct {
	// DeleteData nil follows the claim's deletion policy. True deletes the
	// bucket with all that it holds.
	DeleteData *bool `json:"deleteData,omitempty"`
	// Force releases what is leased.
	Force bool `json:"force,omitempty"`
	// Abandon forgets the claim without asking its driver, which is gone for
	// good: keys that the driver still knows stay alive, and its data stays.
	Abandon bool `json:"abandon,omitempty"`
}

// Credentials are the files of one access. It is the one answer of the daemon
// that holds secrets.
type Credentials struct {
	Directory string `json:"directory"`
	// Files are the credential files by name, as in Directory.
	Files map[string][]byte `json:"files"`
}

// Check validates the request, and puts the defaults in.
func (r *Request) Check(now time.Time) error {
	if r.Kind == "" {
		r.Kind = KindBucket
	}
	if err := CheckName("a claim", r.Name); err != nil {
		return err
	}
	switch r.Kind {
	case KindBucket:
		return r.checkBucket(now)
	case KindDevice:
		return r.checkDevice()
	}
	return Errorf(CodeInvalid, "%q is no kind of claim", shorten(string(r.Kind))).WithHint("use bucket or device")
}

func (r *Request) checkDevice() error {
	rest := *r
	rest.Kind, rest.Name, rest.Device, rest.NoAccess = "", "", nil, false
	if !bytes.Equal(rest.Asked(), (&Request{}).Asked()) || r.Access != nil {
		return Errorf(CodeInvalid, "a claim for a device has a name and a device, and nothing that is a bucket's")
	}
	if r.Device == nil {
		r.Device = &DeviceSpec{}
	}
	r.NoAccess = true
	return r.Device.Check()
}

func (r *Request) checkBucket(now time.Time) error {
	if r.Device != nil {
		return Errorf(CodeInvalid, "a claim for a bucket describes no device")
	}
	if r.Class == "" {
		r.Class = DefaultName
	}
	if err := CheckName("a bucket class", r.Class); err != nil {
		return err
	}
	if r.DeletionPolicy != "" {
		policy, err := ParseDeletionPolicy(string(r.DeletionPolicy))
		if err != nil {
			return err
		}
		r.DeletionPolicy = policy
	}
	for what, s := range map[string]string{"the id of the existing bucket": r.Existing, "the driver's name": r.Driver} {
		if err := CheckString(what, s); err != nil {
			return err
		}
	}
	if err := CheckParameters(r.Parameters); err != nil {
		return err
	}
	if r.Existing != "" && len(r.Parameters) > 0 {
		return Errorf(CodeInvalid, "an existing bucket takes no parameters: it is not created")
	}
	return r.checkAccess(now)
}

func (r *Request) checkAccess(now time.Time) error {
	switch {
	case r.NoAccess && r.Access != nil:
		return Errorf(CodeInvalid, "a claim without an access cannot describe one")
	case r.NoAccess:
		return nil
	case r.Access == nil:
		r.Access = &AccessSpec{}
	}
	if r.Access.Name == "" {
		r.Access.Name = DefaultName
	}
	return r.Access.Check(now)
}

// Asked is the request but for its access, in one canonical form: two requests
// for the same bucket, or the same device, are equal in it.
func (r *Request) Asked() json.RawMessage {
	c := *r
	c.Access, c.NoAccess = nil, false
	b, _ := json.Marshal(c) // strings and maps of strings always encode
	return b
}

// Same reports whether two specs of an access, both checked, ask for the same.
func (s *AccessSpec) Same(other *AccessSpec) bool {
	a, _ := json.Marshal(s)
	b, _ := json.Marshal(other)
	return bytes.Equal(a, b)
}
