package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
)

// session is a day in the life of a host whose secrets are watched.
type session struct {
	*host
	secrets map[string]string // what it is of, by secret
	places  map[string]string // text by where it was found
}

func (s *session) secret(device string) {
	s.t.Helper()
	k := s.key(device)
	s.secrets[k.secret] = device + " " + k.id
}

// found keeps a text that must hold no secret.
func (s *session) found(where, text string) { s.places[where] += text }

// says keeps what a command says.
func (s *session) says(args ...string) {
	s.t.Helper()
	r := s.try(args...)
	s.found("fairlead "+strings.Join(args, " "), r.stdout+r.stderr)
}

// tree keeps all that is in the files below a directory, but for those in
// except.
func (s *session) tree(dir, except string) {
	s.t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == except:
			return fs.SkipDir
		case e.Type().IsRegular():
			s.found(path, read(s.t, path))
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// process keeps what anybody may learn of a process.
func (s *session) process(what string, pid int) {
	s.t.Helper()
	for _, file := range []string{"cmdline", "environ"} {
		s.found(what+"'s "+file, read(s.t, "/proc", fmt.Sprint(pid), file))
	}
}

// TestNoSecretAnywhere looks for every secret of a session in everything that
// a person, a log or a backup gets to see.
//
// Req: COSI-020, COSI-149, COSI-172, COSI-175
func TestNoSecretAnywhere(t *testing.T) {
	t.Parallel()
	s := &session{host: newHost(t), secrets: map[string]string{}, places: map[string]string{}}
	d := s.up("--log", "debug")
	s.addVendor("vendor", "scripted")
	s.addVendor("teller", "teller")

	// Claims, accesses, rotations, use, and what goes wrong with them.
	s.ok("claim", "bucket", "photos")
	s.secret("photos")
	s.ok("access", "add", "photos.viewer", "--mode", "ReadOnly", "--template", "app.conf="+template(t))
	s.secret("photos.viewer")
	s.ok("access", "rotate", "photos", "--grace", "1h")
	s.secret("photos")
	s.ok("access", "rotate", "photos")
	s.secret("photos")
	k := s.key("photos")
	k.alive(t)
	wrong := k
	wrong.secret = "not" + k.secret[3:]
	if _, err := wrong.get(t.Context(), "alive"); s3Code(err) != "SignatureDoesNotMatch" {
		t.Errorf("with a wrong key: %v", err)
	}
	s.ok("claim", "bucket", "theirs", "--driver", "vendor")
	s.secret("theirs")
	s.refused(8, nil, "access", "add", "theirs.told", "--param", "do=tell-secret", "--wait", "50ms")
	theirs := s.get("theirs")
	s.secrets[vendorSecret(theirs.Access("told").Account.Name)] = "theirs.told"
	s.describes("theirs", "the policy of key *** is wrong")
	s.ok("claim", "bucket", "told", "--driver", "teller")
	s.secret("told")
	s.refused(4, nil, "claim", "bucket", "photos", "--param", "quota=1Gi")

	// The daemon asks for the same keys again; the teller tells.
	d.kill()
	s.found("the daemon's log", d.output.String())
	d = s.up("--log", "debug")
	s.describes("told", "exists with key ***")

	s.files()
	cmd := s.command(fairlead, "exec", "photos", "--", "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.until("the program runs", func(context.Context) error {
		if name := read(t, "/proc", fmt.Sprint(cmd.Process.Pid), "comm"); name != "cat\n" {
			return errors.New(name)
		}
		return nil
	})
	s.process("a program", cmd.Process.Pid)
	s.process("the daemon", d.cmd.Process.Pid)
	for _, name := range []string{claim.ObjectsDriver, "vendor", "teller"} {
		s.process("driver "+name, s.driver(name).PID)
		s.says("driver", "log", name)
	}
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		s.says("get", "-o", format)
		s.says("driver", "list", "-o", format)
		s.says("access", "list", "photos", "-o", format)
	}
	for _, name := range []string{"photos", "theirs", "told"} {
		s.says("describe", name)
		s.says("describe", name, "-o", "json")
	}
	s.says("doctor")
	s.says("release", "photos") // in use
	_ = stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	s.tree(s.state, "")
	s.tree(s.run, s.run+"/creds")
	s.ok("release", "photos", "--delete-data")
	d.stop()
	s.found("the daemon's log", d.output.String())
	s.tree(s.state, "")

	for where, text := range s.places {
		for secret, of := range s.secrets {
			for form, hidden := range map[string]string{"plain": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret))} {
				if strings.Contains(text, hidden) {
					t.Errorf("%s holds the secret of %s (%s)", where, of, form)
				}
			}
		}
	}
	if len(s.secrets) < 7 || len(s.places) < 30 {
		t.Errorf("%d secrets were looked for in %d places", len(s.secrets), len(s.places))
	}
}

// template is a template that writes a secret, as they are for.
func template(t testing.TB) string {
	file := tempDir(t, "") + "/app.conf"
	write(t, file, "secret = {{.spec.secretS3.accessSecretKey}}\n", 0o600)
	return file
}

// files checks how the files with secrets are kept: in memory, and for their
// owner only.
func (s *session) files() {
	t := s.t
	t.Helper()
	var file unix.Statfs_t
	if err := unix.Statfs(s.run+"/creds/photos", &file); err != nil || file.Type != unix.TMPFS_MAGIC {
		t.Errorf("credentials are on a file system %#x: %v", file.Type, err)
	}
	n := 0
	err := filepath.WalkDir(s.run+"/creds", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == s.run+"/creds" {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o400)
		switch {
		case e.IsDir() && strings.Count(strings.TrimPrefix(path, s.run), "/") == 2:
			want = fs.ModeDir | 0o700
		case e.IsDir():
			return nil // a version, below the directory that nobody else enters
		case e.Type() == fs.ModeSymlink:
			return nil
		}
		n++
		if fi.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, fi.Mode(), want)
		}
		return nil
	})
	if err != nil || n < 20 {
		t.Errorf("%d files: %v", n, err)
	}
	specs := files(t, s.cdi)
	for _, name := range specs {
		var spec struct{ Kind string }
		text := read(t, s.cdi, name)
		fi, err := os.Stat(filepath.Join(s.cdi, name))
		if err != nil || fi.Mode() != 0o644 || json.Unmarshal([]byte(text), &spec) != nil || spec.Kind != "fairlead.dev/bucket" {
			t.Errorf("the spec %s: %v, %v", name, fi, err)
		}
	}
	if len(specs) < 3 {
		t.Errorf("specs: %v", specs)
	}
}
