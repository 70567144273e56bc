package keeper

import (
	"bytes"
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
func (k *Keeper) sweep() {
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

func (k *Keeper) sweepSpecs(known map[string]bool) {
	if k.cfg.CDIDir == "" {
		return
	}
	const prefix, suffix = "fairlead.dev-bucket_", ".json"
	files, _ := os.ReadDir(k.cfg.CDIDir)
	for _, f := range files {
		name, isOurs := strings.CutPrefix(f.Name(), prefix)
		if !isOurs || known[strings.TrimSuffix(name, suffix)] || !f.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(k.cfg.CDIDir, f.Name()))
		if err != nil || !bytes.Contains(text, []byte(`"`+k.cfg.CredsDir+"/")) {
			continue
		}
		if err := cdi.Remove(k.cfg.CDIDir, f.Name()); err != nil {
			k.log.Warn("a stale CDI spec stays", "file", f.Name(), "error", err)
		}
	}
}
