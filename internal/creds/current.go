package creds

import (
	"os"
	"path/filepath"
)

// Version names what is published in dir: two directories of the same version,
// written with the same key, hold the same. It is "" where nothing is published
// or something of an older version may be left. It costs one readlink.
func Version(dir string) string {
	target, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil || filepath.Base(target) != target {
		return ""
	}
	return target
}
