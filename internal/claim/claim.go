// Package claim holds the words of Fairlead: claims, accesses, classes,
// drivers, their phases and their rules. It does no I/O and decides nothing;
// every other room speaks in these types, and the daemon's API prints them.
package claim

import "time"

// Kind says what a claim asks for.
type Kind string

// KindBucket is a bucket of an object store, reached through COSI.
const KindBucket Kind = "bucket"

// DefaultName is the name of the class that a claim has when it names none, and
// of the access that every claim for a bucket begins with.
const DefaultName = "default"

// ObjectsDriver is the name of our own driver among the drivers of a host.
const ObjectsDriver = "objects"

// Phase is where a claim or an access is on its way. The zero value is not a
// phase: every stored object has one.
type Phase string

const (
	// PhasePending: the intent is on disk and the keeper works on it, or
	// waits to try again; Message says what it waits for.
	PhasePending Phase = "Pending"
	// PhaseReady: everything asked for exists and is published.
	PhaseReady Phase = "Ready"
	// PhaseFailed: the driver refused for a reason that trying again cannot
	// mend (COSI-097, COSI-099, COSI-125, COSI-127); Message says which.
	PhaseFailed Phase = "Failed"
	// PhaseReleasing: on its way out; it never comes back from here.
	PhaseReleasing Phase = "Releasing"
)

// Mode is what an access may do with its bucket. The zero value means
// ModeReadWrite.
type Mode string

// The modes of an access, in the words of COSI's AnonymousBucketAccessMode.
const (
	ModeReadWrite Mode = "ReadWrite"
	ModeReadOnly  Mode = "ReadOnly"
	ModeWriteOnly Mode = "WriteOnly"
)

// DeletionPolicy says what becomes of a bucket's data when its claim is
// released and the person says nothing. The zero value means Retain.
type DeletionPolicy string

// The deletion policies, in upstream's words.
const (
	Retain DeletionPolicy = "Retain"
	Delete DeletionPolicy = "Delete"
)

// Authentication is how an access proves itself: upstream's KEY or IAM. The
// zero value means AuthKey.
type Authentication string

// The authentication types (COSI-038).
const (
	AuthKey Authentication = "KEY"
	AuthIAM Authentication = "IAM"
)

// Claim is one stated need and what has been done for it.
type Claim struct {
	Kind      Kind      `json:"kind"`
	Name      string    `json:"name"`
	UID       string    `json:"uid"`
	CreatedAt time.Time `json:"createdAt"`

	// Device is set in a claim of KindDevice, and only there. Nothing below that
	// speaks of classes, drivers, buckets and accesses is.
	Device *Device `json:"device,omitempty"`

	// Class is the bucket class by name. Driver, DeletionPolicy and the
	// class's parameters were copied from it when the claim was made, so that
	// a later change of the class changes no claim.
	Class          string            `json:"class,omitempty"`
	Driver         string            `json:"driver,omitempty"`
	DeletionPolicy DeletionPolicy    `json:"deletionPolicy,omitempty"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	// Existing is the id of a bucket that was there before (brownfield). Such
	// a bucket is never created and never deleted.
	Existing string `json:"existing,omitempty"`

	Phase   Phase  `json:"phase"`
	Message string `json:"message,omitempty"`

	// BucketName is the generated name given to the driver (COSI-118); empty
	// for a brownfield claim. BucketID is the driver's answer (COSI-055).
	BucketName string   `json:"bucketName,omitempty"`
	BucketID   string   `json:"bucketID,omitempty"`
	Protocol   Protocol `json:"protocol,omitzero"`

	Accesses []Access `json:"accesses"`
	Leases   []Lease  `json:"leases,omitempty"`

	// DeleteData is set when the claim is Releasing: whether the bucket goes
	// with it. ForceDelete says that it may hold objects, Abandon that the
	// driver is not asked.
	DeleteData  bool `json:"deleteData,omitempty"`
	ForceDelete bool `json:"forceDelete,omitempty"`
	Abandon     bool `json:"abandon,omitempty"`
}

// Protocol is what DriverCreateBucket said of how to reach the bucket
// (COSI-056). Exactly one field is set once the bucket exists; none is for a
// brownfield bucket.
type Protocol struct {
	S3    *S3    `json:"s3,omitempty"`
	Azure *Azure `json:"azureBlob,omitempty"`
	GCS   *GCS   `json:"gcs,omitempty"`
}

// S3 mirrors the protobuf message (COSI-039).
type S3 struct {
	Region           string `json:"region"`
	SignatureVersion string `json:"signatureVersion,omitempty"`
}

// Azure mirrors the protobuf message (COSI-040).
type Azure struct {
	StorageAccount string `json:"storageAccount"`
}

// GCS mirrors the protobuf message (COSI-041).
type GCS struct {
	PrivateKeyName string `json:"privateKeyName,omitempty"`
	ProjectID      string `json:"projectID,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// AccessSpec is what a person asks of an access.
type AccessSpec struct {
	Name string `json:"name"`
	// Class is the bucket access class by name; empty for none.
	Class string `json:"class,omitempty"`
	Mode  Mode   `json:"mode,omitempty"`
	// Prefix limits the access to keys that begin with it; empty for none.
	Prefix string `json:"prefix,omitempty"`
	// Expiry is when the credentials stop working; the zero time is never.
	Expiry         time.Time         `json:"expiry,omitzero"`
	Authentication Authentication    `json:"authenticationType,omitempty"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	// GID lets a group read the credential files (0440); nil keeps them to
	// their owner (0400).
	GID *int `json:"gid,omitempty"`
	// Templates are further files to write, by file name: the text of Go
	// templates over the BucketInfo.
	Templates map[string]string `json:"templates,omitempty"`
	// SecretName and ServiceAccount are kept from a BucketAccess manifest.
	SecretName     string `json:"credentialsSecretName,omitempty"`
	ServiceAccount string `json:"serviceAccountName,omitempty"`
}

// Access is one set of credentials on a claim's bucket.
type Access struct {
	AccessSpec
	UID       string    `json:"uid"`
	CreatedAt time.Time `json:"createdAt"`
	Phase     Phase     `json:"phase"`
	Message   string    `json:"message,omitempty"`

	// Account is the account in use; Next is the one a rotation is making;
	// Retiring are older ones that still work until their RevokeAt.
	Account  Account   `json:"account"`
	Next     *Account  `json:"next,omitempty"`
	Retiring []Account `json:"retiring,omitempty"`
	// Grace is how long the replaced account goes on working once Next is in
	// use, as chosen by the rotation under way.
	Grace Duration `json:"grace,omitempty"`

	// Directory holds the credential files and Device is the CDI name; both
	// are set once the access is published.
	Directory string `json:"directory,omitempty"`
	Device    string `json:"device,omitempty"`
}

// Account is one account at the driver.
type Account struct {
	// Name is generated (COSI-033), ID is the driver's answer (COSI-034) and
	// empty until it came.
	Name       string    `json:"name"`
	ID         string    `json:"id,omitempty"`
	Generation int       `json:"generation"`
	CreatedAt  time.Time `json:"createdAt,omitzero"`
	RevokeAt   time.Time `json:"revokeAt,omitzero"`
}

// Lease says that a running process uses a claim; a leased claim is not
// released. A lease lives as long as its process: Started tells a recycled
// process id apart.
type Lease struct {
	Holder  string `json:"holder"`
	PID     int    `json:"pid"`
	Started uint64 `json:"started"`
}

// BucketClass is upstream's BucketClass.
type BucketClass struct {
	Name           string            `json:"name"`
	Driver         string            `json:"driverName"`
	DeletionPolicy DeletionPolicy    `json:"deletionPolicy"`
	Parameters     map[string]string `json:"parameters,omitempty"`
}

// AccessClass is upstream's BucketAccessClass.
type AccessClass struct {
	Name           string            `json:"name"`
	Driver         string            `json:"driverName"`
	Authentication Authentication    `json:"authenticationType"`
	Parameters     map[string]string `json:"parameters,omitempty"`
}

// Driver is one COSI driver known to this host. Exactly one of Endpoint and
// Exec is set.
type Driver struct {
	Name string `json:"name"`
	// Endpoint is a socket somebody else serves: unix:///path/to/x.sock.
	Endpoint string `json:"endpoint,omitempty"`
	// Exec is a command that Fairlead runs and restarts, with COSI_ENDPOINT.
	Exec []string `json:"exec,omitempty"`
	// BuiltIn marks our own driver, which cannot be removed.
	BuiltIn bool `json:"builtIn,omitempty"`

	// Identity is what DriverGetInfo said last (COSI-027).
	Identity string `json:"identity,omitempty"`

	// What is known of it now; never stored.
	Protocol string `json:"protocol,omitempty"` // "v1alpha1" or "draft"
	State    string `json:"state,omitempty"`    // "Ready", "Starting", "BackOff", "Unreachable"
	Message  string `json:"message,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Restarts int    `json:"restarts,omitempty"`
}

// Event is one thing that happened to a claim.
type Event struct {
	Time    time.Time `json:"time"`
	Warning bool      `json:"warning,omitempty"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	// Count is how often it happened in a row; Time is the last.
	Count int `json:"count,omitempty"`
}

// Duration is a time.Duration that reads and writes as "10m0s" in JSON.
type Duration time.Duration

// MarshalText writes the duration as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Access returns the access of that name, or nil.
func (c *Claim) Access(name string) *Access {
	for i := range c.Accesses {
		if c.Accesses[i].Name == name {
			return &c.Accesses[i]
		}
	}
	return nil
}
