// Package daemon puts the rooms together: ledger, keeper, drivers and the API
// of one host, started and stopped in the right order.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/control"
	"github.com/fairlead/fairlead/internal/creds"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/keeper"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/plugin"
	"github.com/fairlead/fairlead/internal/seal"
)

const (
	// lockWait is how long to wait for a daemon that is just ending.
	lockWait = 500 * time.Millisecond
	// closeWait is how long calls under way may take when the daemon stops.
	closeWait = 5 * time.Second
	// credsSize bounds the tmpfs for credentials, in bytes: some 12 KiB a claim.
	credsSize = 512 << 20
)

// Config says where a daemon lives. All paths are absolute.
type Config struct {
	StateDir string // the ledger, the host key and the objects
	RunDir   string // credentials, sockets of drivers; lost at reboot
	CDIDir   string // CDI specs; empty for none
	Socket   string // of the API
	// Self is the command that runs our own driver ("fairlead serve cosi");
	// DriverEnv is added to its environment.
	Self      []string
	DriverEnv []string
	// Hook is the program that the CDI specs of devices name in their hooks, an
	// absolute path; empty is where a package installs it.
	Hook    string
	Version string
	Log     *slog.Logger
}

// Run runs a daemon until ctx ends, then stops it in order and returns nil.
// Another daemon on the same state directory is a claim.CodeInUse error.
func Run(ctx context.Context, cfg Config) error {
	d := &daemon{Config: cfg}
	if err := d.prepare(); err != nil {
		return err
	}
	led, err := openLedger(cfg.StateDir)
	if err != nil {
		return err
	}
	defer func() { _ = led.Close() }()
	key, err := seal.Open(filepath.Join(cfg.StateDir, "host.key"))
	if err != nil {
		return err
	}
	// The socket comes before the claims: a second daemon must not touch them.
	listener, err := plugin.Listen("unix://"+cfg.Socket, 0o600)
	if errors.Is(err, plugin.ErrInUse) {
		return claim.Errorf(claim.CodeInUse, "another daemon answers on the socket %s", cfg.Socket).
			WithHint("use that one (fairlead get), or choose another socket with --socket or --run-dir")
	}
	if errors.Is(err, plugin.ErrConfig) || errors.Is(err, plugin.ErrEndpoint) {
		return claim.Errorf(claim.CodeInvalid, "serve the API: %v", err).WithHint("choose another socket with --socket")
	}
	if err != nil {
		return fmt.Errorf("serve the API: %w", err)
	}
	defer func() { _ = listener.Close() }()
	d.keeper, err = keeper.Open(keeper.Config{
		Ledger: led, Key: key, Log: cfg.Log,
		CredsDir: d.credsDir(), CDIDir: cfg.CDIDir, SocketDir: filepath.Join(cfg.RunDir, "drivers"),
		Devices:    device.Host{Hook: cfg.Hook},
		Objects:    cfg.Self,
		ObjectsEnv: append([]string{"FAIRLEAD_OBJECTS_DIR=" + filepath.Join(cfg.StateDir, "objects")}, cfg.DriverEnv...),
	})
	if err != nil {
		return err
	}
	err = d.serve(ctx, listener)
	d.keeper.Close()
	d.tidy()
	return err
}

type daemon struct {
	Config
	keeper   *keeper.Keeper
	warnings []string
}

func (d *daemon) credsDir() string { return filepath.Join(d.RunDir, "creds") }

// prepare makes the directories and checks that secrets stay in memory.
func (d *daemon) prepare() error {
	dirs := []struct {
		path string
		mode os.FileMode
	}{
		{d.StateDir, 0o700}, {d.RunDir, 0o755}, {d.credsDir(), 0o711}, {filepath.Join(d.RunDir, "drivers"), 0o700},
	}
	if d.CDIDir != "" {
		dirs = append(dirs, struct {
			path string
			mode os.FileMode
		}{d.CDIDir, 0o755})
	}
	for _, dir := range dirs {
		if err := makeDir(dir.path, dir.mode); err != nil {
			return fmt.Errorf("make the daemon's directories: %w", err)
		}
	}
	if err := checkOwner(d.RunDir, d.StateDir); err != nil {
		return err
	}
	return d.secureCreds()
}

// makeDir makes a directory with that mode, whatever the umask; one that is
// there keeps its own.
func makeDir(path string, mode os.FileMode) error {
	_, err := os.Lstat(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.MkdirAll(path, mode))
	}
	return errors.Join(os.MkdirAll(path, mode), os.Chmod(path, mode))
}

// checkOwner refuses directories, and links to them, that belong to somebody
// else: what is found there is trusted, and a name among the temporary files can
// be taken by anyone.
func checkOwner(dirs ...string) error {
	for _, dir := range dirs {
		for _, stat := range []func(string, *unix.Stat_t) error{unix.Lstat, unix.Stat} {
			var st unix.Stat_t
			if err := stat(dir, &st); err != nil {
				return fmt.Errorf("look at %s: %w", dir, err)
			}
			if uid := int(st.Uid); uid != os.Geteuid() && uid != 0 {
				return claim.Errorf(claim.CodeDenied, "%s belongs to user %d, not to user %d who runs this daemon", dir, uid, os.Geteuid()).
					WithHint("choose another with --state and --run-dir")
			}
		}
	}
	return nil
}

// secureCreds has the credentials in memory: where the run directory is on a
// disk, root mounts a tmpfs, and a user is warned.
func (d *daemon) secureCreds() error {
	err := creds.EnsureTmpfs(d.credsDir())
	if err == nil || !errors.Is(err, creds.ErrOnDisk) {
		return err
	}
	if os.Geteuid() != 0 {
		d.warn(fmt.Sprintf("credentials are written to a disk: %s is not on tmpfs; set XDG_RUNTIME_DIR or --run-dir to one", d.RunDir))
		return nil
	}
	if err := creds.MountTmpfs(d.credsDir(), credsSize); err != nil {
		return fmt.Errorf("keep credentials off the disk: %w", err)
	}
	return os.Chmod(d.credsDir(), 0o711)
}

// tidy takes the tmpfs for credentials away again once nothing is published;
// while something is, containers may read it, daemon or not.
func (d *daemon) tidy() {
	left, err := os.ReadDir(d.credsDir())
	if err != nil || len(left) > 0 || os.Geteuid() != 0 || creds.EnsureTmpfs(d.RunDir) == nil {
		return
	}
	if err := unix.Unmount(d.credsDir(), unix.UMOUNT_NOFOLLOW); err != nil {
		d.Log.Debug("the tmpfs for credentials stays", "error", err)
	}
}

func (d *daemon) warn(message string) {
	d.warnings = append(d.warnings, message)
	d.Log.Warn(message)
}

func openLedger(dir string) (*ledger.Ledger, error) {
	led, err := ledger.Open(dir, lockWait)
	if errors.Is(err, ledger.ErrLocked) {
		return nil, claim.Errorf(claim.CodeInUse, "another daemon is running on the state directory %s", dir).
			WithHint("use that one (fairlead get), or choose another directory with --state")
	}
	return led, err
}

// serve answers the API until ctx ends.
func (d *daemon) serve(ctx context.Context, listener net.Listener) error {
	server := control.NewServer(d.keeper, d.Log, d.status)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	d.notify(sddaemon.SdNotifyReady)
	d.Log.Info("daemon ready", "socket", d.Socket, "state", d.StateDir, "cdi", d.CDIDir)
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	d.notify(sddaemon.SdNotifyStopping)
	d.keeper.Stop() // or those who wait for a claim would hold up the server
	closing, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if cerr := server.Close(closing); cerr != nil {
		d.Log.Warn("calls under way were cut", "error", cerr)
	}
	return err
}

func (d *daemon) notify(state string) {
	if _, err := sddaemon.SdNotify(false, state); err != nil {
		d.Log.Warn("systemd was not told", "state", state, "error", err)
	}
}

// status is what the daemon tells of itself.
func (d *daemon) status() control.Status {
	s := control.Status{
		Version: d.Version, PID: os.Getpid(), UID: os.Getuid(),
		StateDir: d.StateDir, RunDir: d.RunDir, CDIDir: d.CDIDir, Socket: d.Socket,
		Claims: d.keeper.Count(), Drivers: d.keeper.Drivers(), Warnings: d.warnings,
		Ready: d.keeper.Settled(),
	}
	for _, driver := range s.Drivers {
		s.Ready = s.Ready && (!driver.BuiltIn || driver.State == "Ready")
	}
	return s
}
