package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// identity is what one end shows and trusts, from files that may change.
type identity struct {
	certFile, keyFile, caFile string
	log                       *slog.Logger

	mu          sync.Mutex
	seen        [3]fs.FileInfo // of the files as last read
	cert        tls.Certificate
	authorities *x509.CertPool
	complaint   string // the last failure that was logged
}

// newIdentity fails unless all three files can be used now.
func newIdentity(cert, key, ca string, log *slog.Logger) (*identity, error) {
	for name, file := range map[string]string{"certificate": cert, "key": key, "CA": ca} {
		if file == "" {
			return nil, fmt.Errorf("a %s file is needed: without mutual TLS nothing is sent over the network", name)
		}
	}
	i := &identity{certFile: cert, keyFile: key, caFile: ca, log: log}
	seen, err := i.look()
	if err != nil {
		return nil, err
	}
	return i, i.read(seen)
}

// current returns the files' content, read again if one of them has changed.
func (i *identity) current() (tls.Certificate, *x509.CertPool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.refresh(); err != nil && err.Error() != i.complaint {
		i.complaint = err.Error()
		i.log.Warn("changed certificate files cannot be used; the old ones stay in force", "cause", err)
	}
	return i.cert, i.authorities
}

func (i *identity) refresh() error {
	seen, err := i.look()
	if err != nil {
		return err
	}
	for n := range seen {
		if !same(seen[n], i.seen[n]) {
			return i.read(seen)
		}
	}
	return nil
}

func (i *identity) look() (seen [3]fs.FileInfo, err error) {
	for n, file := range []string{i.certFile, i.keyFile, i.caFile} {
		if seen[n], err = os.Stat(file); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read takes over all three files or, on an error, none: seen stays as it was,
// so that the next handshake tries again.
func (i *identity) read(seen [3]fs.FileInfo) error {
	cert, err := tls.LoadX509KeyPair(i.certFile, i.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate %s and key %s: %w", i.certFile, i.keyFile, err)
	}
	pem, err := os.ReadFile(i.caFile)
	if err != nil {
		return fmt.Errorf("read CA: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return fmt.Errorf("read CA %s: no certificate in it", i.caFile)
	}
	if i.cert.Leaf != nil {
		i.log.Info("certificate files were read again", "expires", cert.Leaf.NotAfter)
	}
	i.seen, i.cert, i.authorities, i.complaint = seen, cert, authorities, ""
	return nil
}
