package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// TestTLS: with a certificate the endpoint is https, for clients that trust
// the authority and for no others.
func TestTLS(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	ca, cert, key := certificates(t, h.run)
	sdk, err := s3Program()
	if err != nil {
		t.Fatal(err)
	}
	h.up("--s3-cert", cert, "--s3-key", key)
	h.ok("claim", "bucket", "photos")
	if k := h.key("photos"); !strings.HasPrefix(k.endpoint, "https://127.0.0.1:") {
		t.Errorf("the endpoint is %s", k.endpoint)
	}
	for _, ask := range []struct{ command, want string }{{"put hello world", "ok stored"}, {"get hello", "ok world"}} {
		r := h.exec("", append([]string{"env", "AWS_CA_BUNDLE=" + ca, fairlead, "exec", "photos", "--", sdk}, strings.Fields(ask.command)...)...)
		if strings.TrimSpace(r.stdout) != ask.want {
			t.Errorf("%s: %s", ask.command, r)
		}
	}
	if r := h.try("exec", "photos", "--", sdk, "list"); !strings.Contains(r.stdout, "certificate") {
		t.Errorf("without the authority: %s", r)
	}

	bad := newHost(t)
	bad.refused(2, []string{"belong together"}, "up", "--s3-cert", cert)
	bad.refused(2, []string{"no such file"}, "up", "--s3-cert", h.run+"/none", "--s3-key", key)
}

// certificates makes an authority and a certificate of 127.0.0.1, as files.
func certificates(t testing.TB, dir string) (ca, cert, key string) {
	t.Helper()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "store"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	rootKey, rootText := sign(t, root, root, nil)
	leafKey, leafText := sign(t, leaf, root, rootKey)
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	ca, cert, key = dir+"/ca.pem", dir+"/tls.crt", dir+"/tls.key"
	write(t, ca, rootText, 0o644)
	write(t, cert, leafText, 0o644)
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), 0o600)
	return ca, cert, key
}

// sign makes a key and its certificate, signed by itself where by is nil.
func sign(t testing.TB, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
