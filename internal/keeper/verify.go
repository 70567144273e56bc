package keeper

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
)

// sweep removes what a crash may have left published of claims and accesses
// that the ledger does not know: files are never trusted, the ledger is. Specs
// of another daemon that shares the CDI directory stay.
func (k *Keeper) sweep(unfinished []string) {
	buckets, specs := map[string]bool{}, map[string]bool{}
	k.mu.RLock()
	for name, e := range k.claims {
		rec := e.rec.Load()
		if rec == nil { // released by its driver's coming
			continue
		}
		if rec.Claim.Kind == claim.KindDevice {
			specs[deviceFile(name)] = true
		}
		for i := range rec.Claim.Accesses {
			access := rec.Claim.Accesses[i].Name
			buckets[claim.DeviceName(name, access)], specs[cdiFile(name, access)] = true, true
		}
	}
	k.mu.RUnlock()
	k.sweepSpecs(specs)
	k.sweepUnfinished(unfinished, specs)
	dirs, _ := os.ReadDir(k.cfg.CredsDir)
	for _, d := range dirs {
		if buckets[d.Name()] {
			continue
		}
		if err := creds.Remove(filepath.Join(k.cfg.CredsDir, d.Name())); err != nil {
			k.log.Warn("left as it is", "error", err)
		}
	}
}

// The names of our specs in a directory that others use too.
const (
	specPrefix   = "fairlead.dev-bucket_"
	devicePrefix = "fairlead.dev-device_"
	specSuffix   = ".json"
)

// sweepSpecs removes specs of buckets that nobody has claimed. The spec of a
// device says nothing of whose it is; it is taken away before its claim is.
func (k *Keeper) sweepSpecs(known map[string]bool) {
	if k.cfg.CDIDir == "" {
		return
	}
	files, _ := os.ReadDir(k.cfg.CDIDir)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), specPrefix) || known[f.Name()] || !f.Type().IsRegular() || !k.wrote(f.Name()) {
			continue
		}
		if err := cdi.Remove(k.cfg.CDIDir, f.Name()); err != nil {
			k.log.Warn("a stale CDI spec stays", "file", f.Name(), "error", err)
		}
	}
}

// wrote reports whether a file in the CDI directory points into our credentials.
func (k *Keeper) wrote(file string) bool {
	text, err := os.ReadFile(filepath.Join(k.cfg.CDIDir, file))
	return err == nil && bytes.Contains(text, []byte(`"`+k.cfg.CredsDir+"/"))
}

// unfinishedMark stands between the name of a spec, behind a dot, and what makes
// the name of its temporary file unique.
const unfinishedMark = ".tmp-"

// unfinishedSpecs are the temporary files of specs, ours and another daemon's.
func (k *Keeper) unfinishedSpecs() (names []string) {
	if k.cfg.CDIDir == "" {
		return nil
	}
	files, _ := os.ReadDir(k.cfg.CDIDir)
	for _, f := range files {
		isOurs := strings.HasPrefix(f.Name(), "."+specPrefix) || strings.HasPrefix(f.Name(), "."+devicePrefix)
		if isOurs && strings.Contains(f.Name(), specSuffix+unfinishedMark) && f.Type().IsRegular() {
			names = append(names, f.Name())
		}
	}
	return names
}

// sweepUnfinished removes those that an earlier process of this daemon left:
// they are of our claims, or say so themselves.
func (k *Keeper) sweepUnfinished(names []string, known map[string]bool) {
	for _, file := range names {
		spec, _, _ := strings.Cut(strings.TrimPrefix(file, "."), unfinishedMark)
		if !known[spec] && !k.wrote(file) {
			continue
		}
		if err := os.Remove(filepath.Join(k.cfg.CDIDir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("a half-written CDI spec stays", "file", file, "error", err)
		}
	}
}
