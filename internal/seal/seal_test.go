package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func open(t *testing.T, path string) *Key {
	t.Helper()
	k, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	sealed := open(t, path).Seal([]byte("secret"), []byte("name"))
	if bytes.Contains(sealed, []byte("secret")) {
		t.Fatal("the plaintext shows in the sealed text")
	}
	again := open(t, path) // as after a restart
	plain, err := again.Open(sealed, []byte("name"))
	if err != nil || string(plain) != "secret" {
		t.Fatalf("Open = %q, %v", plain, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file: %v, %v", info.Mode(), err)
	}
	if bytes.Equal(sealed, again.Seal([]byte("secret"), []byte("name"))) {
		t.Error("the same text sealed twice is the same: the nonce is reused")
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	k := open(t, filepath.Join(dir, "a.key"))
	sealed := k.Seal([]byte("secret"), []byte("name"))
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		key    *Key
		sealed []byte
		aad    string
	}{
		"other name": {k, sealed, "other"},
		"other key":  {open(t, filepath.Join(dir, "b.key")), sealed, "name"},
		"one bit":    {k, flipped, "name"},
		"cut":        {k, sealed[:5], "name"},
		"empty":      {k, nil, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			if plain, err := c.key.Open(c.sealed, []byte(c.aad)); !errors.Is(err, ErrUnsealed) {
				t.Fatalf("Open = %q, %v", plain, err)
			}
		})
	}
}

func TestBadKeyFileIsNeverReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		mode    os.FileMode
	}{
		"empty":    {nil, 0o600},
		"short":    {make([]byte, 31), 0o600},
		"long":     {make([]byte, 33), 0o600},
		"readable": {make([]byte, 32), 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.key")
			if err := os.WriteFile(path, c.content, c.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(path); err == nil {
				t.Fatal("accepted")
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, c.content) {
				t.Fatalf("the file is now %x, %v", got, err)
			}
		})
	}
}

func TestRacingOpensAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	keys := make([]*Key, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = k
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	sealed := keys[0].Seal([]byte("x"), nil)
	for i, k := range keys {
		if _, err := k.Open(sealed, nil); err != nil {
			t.Fatalf("key %d differs: %v", i, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDerivedKeysAreStableAndApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.key")
	a, b := open(t, path), open(t, path)
	if !bytes.Equal(a.Derive("x"), b.Derive("x")) || bytes.Equal(a.Derive("x"), a.Derive("y")) || len(a.Derive("x")) != 32 {
		t.Error("derived keys differ from start to start, or not from purpose to purpose")
	}
}
