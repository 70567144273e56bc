package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/internal/claim"
)

const unitName = "fairlead.service"

// unit is the systemd unit; %s is the command line. What it does not harden,
// it leaves for the drivers of other vendors, which run inside of it.
const unit = `# Written by "fairlead install".
[Unit]
Description=Fairlead, buckets for containers
Documentation=man:fairlead(1)
After=network-online.target
Wants=network-online.target
# Containers that use a bucket start after it is there.
Before=docker.service podman.service containerd.service

[Service]
Type=notify
NotifyAccess=main
ExecStart=%s
EnvironmentFile=-/etc/fairlead/fairlead.env
Restart=on-failure
RestartSec=1s
TimeoutStartSec=60s
TimeoutStopSec=30s
# The daemon stops its drivers; what it leaves, systemd ends.
KillMode=mixed
LimitNOFILE=65536

StateDirectory=fairlead
StateDirectoryMode=0700
# Running containers hold the credential directories: a restart keeps them.
RuntimeDirectory=fairlead cdi
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes

# Nothing here mounts, loads modules or gains privileges; CAP_SYS_PTRACE reads the
# mount tables of containers, to learn who still uses a bucket. Credential files must
# be seen by containers, so there is no mount namespace of /run or /tmp.
NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
RestrictNamespaces=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_SYS_PTRACE CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID

[Install]
WantedBy=multi-user.target
`

// installOptions are the flags of "install".
type installOptions struct {
	print, force bool
	dir          string
}

func newInstall(a *app) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install [-- UP-FLAG...]",
		Short: "Write the systemd unit of the daemon",
		Long: `Write a systemd unit that runs "fairlead up", with the flags after --, as root.
Settings can also stand in /etc/fairlead/fairlead.env, as environment variables.
A unit that is there and differs is kept, unless --force is given. On stderr it
says where fairlead-hook is, the program that CDI specs of devices with libraries
have run: beside fairlead, or in /usr/local/libexec/fairlead, /usr/libexec/fairlead,
/usr/local/bin or /usr/bin.`,
		Example: `  fairlead install && systemctl daemon-reload && systemctl enable --now fairlead
  fairlead install --print
  fairlead install -- --s3-listen 0.0.0.0:9000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() > 0 || cmd.ArgsLenAtDash() < 0 && len(args) > 0 {
				return usage(cmd, "flags of up stand after --")
			}
			text, err := makeUnit(args)
			if err != nil {
				return err
			}
			if o.print {
				_, err := a.out.Write(text)
				return err
			}
			return a.install(filepath.Join(o.dir, unitName), text, o.force)
		},
	}
	cmd.Flags().BoolVar(&o.print, "print", false, "print the unit and write nothing")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace a unit that differs")
	cmd.Flags().StringVar(&o.dir, "unit-dir", "/etc/systemd/system", "where units are")
	return cmd
}

func makeUnit(upFlags []string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	words := []string{unitWord(self), "up"}
	for _, f := range upFlags {
		words = append(words, unitWord(f))
	}
	return fmt.Appendf(nil, unit, strings.Join(words, " ")), nil
}

// unitWord quotes a word of a command line as systemd reads it
// (systemd.service(5)): specifiers and variables stay as they are written.
func unitWord(s string) string {
	s = strings.NewReplacer(`%`, `%%`, `$`, `$$`).Replace(s)
	if s != "" && !strings.ContainsAny(s, " \t\n\"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func (a *app) install(path string, text []byte, force bool) error {
	old, err := os.ReadFile(path)
	switch {
	case err == nil && bytes.Equal(old, text):
		a.say("%s is there already", path)
		a.sayHook()
		return a.print("%s", path)
	case err == nil && !force:
		return claim.Errorf(claim.CodeConflict, "%s is there and differs", path).WithHint("replace it with: fairlead install --force")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read unit: %w", err)
	}
	if err := writeUnit(path, text); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return claim.Errorf(claim.CodeDenied, "%v", err).WithHint("run it as root: sudo fairlead install")
		}
		return err
	}
	a.sayHook()
	a.say("next: systemctl daemon-reload && systemctl enable --now fairlead")
	return a.print("%s", path)
}

// sayHook says where the hook is, because a spec that names none is found out
// only when a container fails to start.
func (a *app) sayHook() {
	dirs := hookDirs()
	if path := findHook(dirs); path != "" {
		a.say("hooks of CDI specs: %s", path)
		return
	}
	a.say("no %s is installed; devices that bring libraries need it: put it into %s", hookName, dirs[0])
}

// writeUnit replaces the unit in one step, so that systemd never reads half.
func writeUnit(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".fairlead-*")
	if err != nil {
		return fmt.Errorf("write unit: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write unit: %w", err)
	}
	return nil
}
