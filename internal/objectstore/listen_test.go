package objectstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPortStays: with port 0 the endpoint is the same after a restart.
func TestPortStays(t *testing.T) {
	s := openStore(t, storeDir(t))
	first := s.Endpoint()
	if s = reopen(t, s); s.Endpoint() != first || strings.HasSuffix(first, ":0") {
		t.Errorf("endpoint %s, then %s", first, s.Endpoint())
	}
}

func TestOneProcessPerStore(t *testing.T) {
	s := openStore(t, storeDir(t))
	_, err := Open(t.Context(), Config{Root: s.root, Listen: "127.0.0.1:0"})
	wantKind(t, "open twice", err, ErrLocked)
}

func TestConfigurations(t *testing.T) {
	for name, c := range map[string]Config{
		"no port":          {Listen: "127.0.0.1"},
		"half a pair":      {Listen: "127.0.0.1:0", CertFile: "x"},
		"endpoint, no URL": {Listen: "127.0.0.1:0", PublicEndpoint: "s3.example.com"},
	} {
		c.Root = storeDir(t)
		_, err := Open(t.Context(), c)
		wantKind(t, name, err, ErrInvalid)
	}
	for listen, want := range map[string]string{"127.0.0.1:9000": "http://127.0.0.1:9000", "[::1]:9000": "http://[::1]:9000"} {
		s := &Store{cfg: Config{Listen: listen}}
		if got, err := s.publicEndpoint(listen); got != want || err != nil {
			t.Errorf("%s: %q, %v", listen, got, err)
		}
	}
	s := &Store{}
	got, err := s.publicEndpoint("0.0.0.0:9000")
	if host, _, _ := net.SplitHostPort(strings.TrimPrefix(got, "http://")); err != nil || net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified() {
		t.Errorf("every address: %q, %v", got, err)
	}
}

func TestTLS(t *testing.T) {
	dir := storeDir(t)
	certFile, keyFile := writeCertificate(t)
	s, err := Open(t.Context(), Config{Root: dir, Listen: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !strings.HasPrefix(s.Endpoint(), "https://127.0.0.1:") {
		t.Errorf("endpoint %s", s.Endpoint())
	}
	pool := x509.NewCertPool()
	pemCert, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(pemCert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", res.StatusCode)
	}
}

// writeCertificate makes a certificate for 127.0.0.1.
func writeCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}
