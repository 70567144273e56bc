package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/seal"
)

const (
	// cdiKind is the kind of the devices that buckets are.
	cdiKind = "fairlead.dev/bucket"
	// cdiForm is the form of the specs that we write; a change of cdiSpec
	// raises it, so that an upgrade writes them all again.
	cdiForm = "cdi1"
	// inContainer is where a container finds the files of its buckets.
	inContainer = "/run/fairlead/bucket"
)

// publish makes the files and the CDI spec of an access be as they should be.
// After a start it finds them so, most of the time, and writes nothing.
func (k *Keeper) publish(_ context.Context, e *entry, rec *ledger.Record, access string) error {
	a := rec.Claim.Access(access)
	digest := rec.Published[access]
	if digest == "" || k.published(rec.Claim.Name, access) != digest {
		var err error
		if digest, err = k.writeAccess(rec, a, a.Account); errors.Is(err, seal.ErrUnsealed) {
			return k.askAgain(e, access) // another host's key, or a damaged record
		} else if err != nil {
			return err
		}
	}
	if err := k.recordPublished(e, rec, access, digest); err != nil {
		return err
	}
	s := e.seen[access]
	s.published = true
	e.seen[access] = s
	return nil
}

// askAgain has the key of an access granted once more, which gives the same.
func (k *Keeper) askAgain(e *entry, access string) error {
	return k.result(e, "publish", func(rec *ledger.Record) ([]claim.Event, error) {
		if a := rec.Claim.Access(access); a != nil {
			a.Account.ID = ""
		}
		return []claim.Event{k.warning("Unsealed", "the stored credentials of access %s cannot be opened with this host's key; the driver is asked again", access)}, nil
	})
}

// recordPublished writes down what was published, if that is news.
func (k *Keeper) recordPublished(e *entry, rec *ledger.Record, access, digest string) error {
	dir, device := k.credsDir(rec.Claim.Name, access), k.device(rec.Claim.Name, access)
	a := rec.Claim.Access(access)
	if a.Phase == claim.PhaseReady && a.Directory == dir && a.Device == device && rec.Published[access] == digest {
		return nil
	}
	return k.result(e, "publish", func(rec *ledger.Record) ([]claim.Event, error) {
		a := rec.Claim.Access(access)
		if a == nil || a.Phase == claim.PhaseReleasing {
			return nil, nil
		}
		a.Phase, a.Message, a.Directory, a.Device = claim.PhaseReady, "", dir, device
		setPublished(rec, access, digest)
		if rec.Claim.Phase == claim.PhasePending {
			finishClaim(&rec.Claim) // in the same commit, where this was the last thing to do
		}
		return []claim.Event{k.event("Published", "access %s in %s", access, dir)}, nil
	})
}

// writeAccess writes the files and the CDI spec of an access with the key of
// that account, and returns the digest of what is now published.
func (k *Keeper) writeAccess(rec *ledger.Record, a *claim.Access, account claim.Account) (string, error) {
	in, err := k.credsInput(rec, a, account)
	if err != nil {
		return "", err
	}
	files, err := creds.Render(in)
	if err != nil {
		return "", permanent{err}
	}
	dir := k.credsDir(rec.Claim.Name, a.Name)
	if _, err := creds.Write(dir, files, creds.Options{GID: a.GID, Key: k.cfg.Key.Derive("names of published versions")}); err != nil {
		return "", err
	}
	if k.cfg.CDIDir != "" {
		at("publish:files")
		// Without fsync: what a power cut leaves behind is written again.
		if err := cdi.Write(k.cfg.CDIDir, cdiFile(rec.Claim.Name, a.Name), cdiSpec(in, dir), cdi.NoSync); err != nil {
			return "", err
		}
	}
	return k.published(rec.Claim.Name, a.Name), nil
}

// published names what readers find now: the version of the files and the form
// of the spec; "" if either is missing. The spec follows from the claim and the
// files, so that one that is there is right.
func (k *Keeper) published(name, access string) string {
	version := creds.Version(k.credsDir(name, access))
	if version == "" || k.cfg.CDIDir == "" {
		return version
	}
	fi, err := os.Lstat(filepath.Join(k.cfg.CDIDir, cdiFile(name, access)))
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 {
		return ""
	}
	return version + "," + cdiForm
}

// credsInput opens the sealed key of an account and makes of it what an
// application is told.
func (k *Keeper) credsInput(rec *ledger.Record, a *claim.Access, account claim.Account) (creds.Input, error) {
	c := &rec.Claim
	grant := cosi.Grant{AccountID: account.ID}
	plain, err := k.cfg.Key.Open(rec.Sealed[account.Name], []byte(account.Name))
	if err != nil {
		return creds.Input{}, fmt.Errorf("open the credentials of account %s: %w", account.ID, err)
	}
	if err := json.Unmarshal(plain, &grant.Credentials); err != nil {
		return creds.Input{}, errors.New("the sealed credentials cannot be read")
	}
	auth := cosipb.AuthenticationType_Key
	if a.Authentication == claim.AuthIAM {
		auth = cosipb.AuthenticationType_IAM
	}
	info, err := grant.BucketInfo(claim.DeviceName(c.Name, a.Name), c.BucketID, auth)
	if err != nil {
		return creds.Input{}, permanent{err}
	}
	return creds.Input{Claim: c.Name, Access: a.Name, Info: info, Templates: a.Templates}, nil
}

// cdiSpec makes a bucket a CDI device: its directory, read-only, and pointers
// into it. It holds no secret; anyone may read it.
func cdiSpec(in creds.Input, dir string) *cdi.Spec {
	name := claim.DeviceName(in.Claim, in.Access)
	inside := inContainer + "/" + name
	s := &cdi.Spec{
		Kind: cdiKind,
		Devices: []cdi.Device{{
			Name: name,
			ContainerEdits: cdi.ContainerEdits{
				Env: creds.Pointers(in, inside),
				Mounts: []*cdi.Mount{{
					HostPath:      dir,
					ContainerPath: inside,
					// bind, not rbind: nothing is ever mounted below. A mount
					// without options fails in podman.
					Options: []string{"bind", "ro", "nosuid", "nodev", "noexec"},
				}},
			},
		}},
	}
	return s
}

// unpublish takes away what a runtime and an application read.
func (k *Keeper) unpublish(name, access string) error {
	if k.cfg.CDIDir != "" {
		if err := cdi.Remove(k.cfg.CDIDir, cdiFile(name, access)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return creds.Remove(k.credsDir(name, access))
}

// verify asks the driver whether it still knows the account, by granting it
// again: the answer must be the one we have.
func (k *Keeper) verify(ctx context.Context, e *entry, rec *ledger.Record, access string) error {
	a := rec.Claim.Access(access)
	grant, err := k.askGrant(ctx, rec, a, a.Account.Name)
	if err != nil && (!cosi.Terminal(err) || status.Code(err) == codes.NotFound) {
		return err
	}
	s := e.seen[access]
	s.verified = true
	e.seen[access] = s
	if err != nil {
		return k.unanswered(e, access, err)
	}
	if grant.AccountID != a.Account.ID {
		if d, err := k.drivers.get(rec.Claim.Driver); err == nil && d.rec.BuiltIn {
			s.published = false
			e.seen[access] = s
			return k.adopt(e, access, a.Account, grant)
		}
		return k.strayAccount(ctx, e, rec, access, grant.AccountID)
	}
	same, err := k.sameGrant(rec, a.Account, grant)
	if err != nil || same {
		return err
	}
	s.published = false // the endpoint or the key changed: write it out
	e.seen[access] = s
	sealed := k.sealGrant(a.Account.Name, grant)
	return k.result(e, "verify", func(rec *ledger.Record) ([]claim.Event, error) {
		setSealed(rec, a.Account.Name, sealed)
		delete(rec.Published, access)
		return []claim.Event{k.event("Changed", "driver %s gave access %s other credentials than before", rec.Claim.Driver, access)}, nil
	})
}

// unanswered is a driver that will not say again what it said when the account
// was made. ALREADY_EXISTS at least says that the account is there (COSI-078);
// of anything else a person should know, but the key goes on being used.
func (k *Keeper) unanswered(e *entry, access string, err error) error {
	if status.Code(err) == codes.AlreadyExists {
		return nil
	}
	return k.result(e, "verify", func(rec *ledger.Record) ([]claim.Event, error) {
		return []claim.Event{k.warning("Unverified", "the driver was asked for access %s again and refused: %s", access, status.Convert(err).Message())}, nil
	})
}

// adopt takes the account that our own driver made anew because it had lost the
// old one, to a restored backup or a revocation behind our back: it never makes
// a second one beside the first.
func (k *Keeper) adopt(e *entry, access string, old claim.Account, grant cosi.Grant) error {
	sealed := k.sealGrant(old.Name, grant)
	return k.result(e, "verify", func(rec *ledger.Record) ([]claim.Event, error) {
		a := rec.Claim.Access(access)
		if a == nil {
			return nil, nil
		}
		a.Account.ID = grant.AccountID
		setSealed(rec, old.Name, sealed)
		delete(rec.Published, access)
		return []claim.Event{k.warning("Changed", "the driver had lost account %s of access %s, which is %s now", old.ID, access, grant.AccountID)}, nil
	})
}

// strayAccount ends the second account that a driver made when it was asked
// for the first one again, against COSI-090. The one in use stays.
func (k *Keeper) strayAccount(ctx context.Context, e *entry, rec *ledger.Record, access, id string) error {
	if err := k.revokeAccount(ctx, rec, nil, claim.Account{ID: id}); err != nil {
		return err
	}
	return k.result(e, "verify", func(rec *ledger.Record) ([]claim.Event, error) {
		return []claim.Event{k.warning("DriverDefect",
			"driver %s made a second account %s for access %s instead of answering with the first (COSI-090); it was revoked", rec.Claim.Driver, id, access)}, nil
	})
}

// sameGrant reports whether a driver's answer is what we have sealed.
func (k *Keeper) sameGrant(rec *ledger.Record, account claim.Account, grant cosi.Grant) (bool, error) {
	plain, err := k.cfg.Key.Open(rec.Sealed[account.Name], []byte(account.Name))
	if err != nil {
		return false, nil // another host's key: what the driver says is right
	}
	now, err := json.Marshal(grant.Credentials)
	return string(now) == string(plain), err
}

// sealGrant encrypts the credentials of an answer for the ledger.
func (k *Keeper) sealGrant(account string, grant cosi.Grant) []byte {
	plain, _ := json.Marshal(grant.Credentials) // maps of strings always encode
	return k.cfg.Key.Seal(plain, []byte(account))
}

func setSealed(rec *ledger.Record, account string, sealed []byte) {
	if rec.Sealed == nil {
		rec.Sealed = map[string][]byte{}
	}
	rec.Sealed[account] = sealed
}

func setPublished(rec *ledger.Record, access, digest string) {
	if rec.Published == nil {
		rec.Published = map[string]string{}
	}
	rec.Published[access] = digest
}

func (k *Keeper) credsDir(name, access string) string {
	return filepath.Join(k.cfg.CredsDir, claim.DeviceName(name, access))
}

func (k *Keeper) device(name, access string) string {
	if k.cfg.CDIDir == "" {
		return ""
	}
	return cdiKind + "=" + claim.DeviceName(name, access)
}

// cdiFile is the name of the spec file of an access, in the form that upstream
// uses for specs that come and go: vendor-class_id.
func cdiFile(name, access string) string {
	return "fairlead.dev-bucket_" + claim.DeviceName(name, access) + ".json"
}

// protocolOf reads what DriverCreateBucket said of how to reach the bucket.
func protocolOf(p *cosipb.Protocol) (out claim.Protocol) {
	switch {
	case p.GetS3() != nil:
		out.S3 = &claim.S3{Region: p.GetS3().GetRegion(), SignatureVersion: p.GetS3().GetSignatureVersion().String()}
	case p.GetAzureBlob() != nil:
		out.Azure = &claim.Azure{StorageAccount: p.GetAzureBlob().GetStorageAccount()}
	case p.GetGcs() != nil:
		g := p.GetGcs()
		out.GCS = &claim.GCS{PrivateKeyName: g.GetPrivateKeyName(), ProjectID: g.GetProjectId(), ServiceAccount: g.GetServiceAccount()}
	}
	return out
}

// driverError is what the daemon's API says of a driver's error.
func driverError(err error) *claim.Error {
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return claim.Errorf(claim.CodeUnavailable, "%s", message)
	}
	return claim.Errorf(claim.CodeDriver, "%s", message)
}
