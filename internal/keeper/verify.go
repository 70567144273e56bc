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
	known := map[string]bool{}
	k.mu.RLock()
	for name, e := range k.claims {
		if rec := e.rec.Load(); rec != nil { // nil: released by its driver's coming
			for i := range rec.Claim.Accesses {
				known[claim.DeviceName(name, rec.Claim.Accesses[i].Name)] = true
			}
		}
	}
	k.mu.RUnlock()
	k.sweepSpecs(known)
	k.sweepUnfinished(unfinished, known)
	dirs, _ := os.ReadDir(k.cfg.CredsDir)
	for _, d := range dirs {
		if known[d.Name()] {
			continue
		}
		if err := creds.Remove(filepath.Join(k.cfg.CredsDir, d.Name())); err != nil {
			k.log.Warn("left as it is", "error", err)
		}
	}
}

// The names of our specs in a directory that others use too.
const (
	specPrefix = "fairlead.dev-bucket_"
	specSuffix = ".json"
)

func (k *Keeper) sweepSpecs(known map[string]bool) {
	if k.cfg.CDIDir == "" {
		return
	}
	files, _ := os.ReadDir(k.cfg.CDIDir)
	for _, f := range files {
		name, isOurs := strings.CutPrefix(f.Name(), specPrefix)
		if !isOurs || known[strings.TrimSuffix(name, specSuffix)] || !f.Type().IsRegular() || !k.wrote(f.Name()) {
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

// unfinishedSpecs are the temporary files of specs, ours and another daemon's.
func (k *Keeper) unfinishedSpecs() (names []string) {
	if k.cfg.CDIDir == "" {
		return nil
	}
	files, _ := os.ReadDir(k.cfg.CDIDir)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "."+specPrefix) && strings.Contains(f.Name(), specSuffix+".tmp-") && f.Type().IsRegular() {
			names = append(names, f.Name())
		}
	}
	return names
}

// sweepUnfinished removes those that an earlier process of this daemon left:
// they are of our claims, or say so themselves.
func (k *Keeper) sweepUnfinished(names []string, known map[string]bool) {
	for _, file := range names {
		device, _, _ := strings.Cut(strings.TrimPrefix(file, "."+specPrefix), specSuffix+".tmp-")
		if !known[device] && !k.wrote(file) {
			continue
		}
		if err := os.Remove(filepath.Join(k.cfg.CDIDir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("a half-written CDI spec stays", "file", file, "error", err)
		}
	}
}
