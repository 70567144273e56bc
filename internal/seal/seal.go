// Package seal encrypts small secrets under a key that belongs to one host, so
// that a copied database or backup shows none of them.
//
// The key is a file of its own, readable by its owner only. Whoever holds both
// the file and the database holds the secrets: the seal protects what leaves
// the host, not the host from its own root.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const keySize = 32 // AES-256

// ErrUnsealed is returned by Key.Open for anything that this key did not seal
// with the same additional data: another host's key, a changed byte, a text
// moved from one record to another.
var ErrUnsealed = errors.New("not sealed under this host's key")

// Key seals and opens with AES-256-GCM under a fresh random nonce each time.
// It is safe for concurrent use. The zero value is of no use: call Open.
type Key struct {
	aead cipher.AEAD
	raw  []byte
}

// Open reads the host key at path, and makes it first if it is absent. A new
// key is complete and on disk under its final name before Open returns; two
// processes that race agree on one key. A key file that others may read, or
// that is not exactly a key, is an error: it is never silently replaced,
// because everything sealed under it would be lost.
func Open(path string) (*Key, error) {
	raw, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("create host key %s: %w", path, err)
		}
		raw, err = read(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read host key %s: %w", path, err)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, fmt.Errorf("use host key %s: %w", path, err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("use host key %s: %w", path, err)
	}
	return &Key{aead, raw}, nil
}

// Derive returns a key of 32 bytes for another purpose, the same at every
// start. Nothing about the host key, or a key for another purpose, follows
// from it.
func (k *Key) Derive(purpose string) []byte {
	h := hmac.New(sha256.New, k.raw)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// Seal encrypts plaintext. The additional data aad is not stored and must be
// given again to open; use the record's own name, so that a sealed text is
// worth nothing under another name.
func (k *Key) Seal(plaintext, aad []byte) []byte {
	return k.aead.Seal(nil, nil, plaintext, aad)
}

// Open decrypts what Seal made, or returns ErrUnsealed.
func (k *Key) Open(sealed, aad []byte) ([]byte, error) {
	plain, err := k.aead.Open(nil, nil, sealed, aad)
	if err != nil {
		return nil, ErrUnsealed
	}
	return plain, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("mode is %#o: others may read it; run chmod 0600", info.Mode().Perm())
	}
	if info.Size() != keySize {
		return nil, fmt.Errorf("holds %d bytes instead of %d", info.Size(), keySize)
	}
	raw := make([]byte, keySize)
	if _, err := io.ReadFull(f, raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// create writes a new key beside path and links it into place, which fails
// where another process was first; that one's key is then the key.
func create(path string) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".key-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	raw := make([]byte, keySize)
	rand.Read(raw) // never fails
	if _, err := tmp.Write(raw); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
