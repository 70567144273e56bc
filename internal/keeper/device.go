package keeper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/cdi"
	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/creds"
	"github.com/fairlead/fairlead/internal/device"
	"github.com/fairlead/fairlead/internal/ledger"
	"github.com/fairlead/fairlead/internal/mount"
)

// deviceKind is the kind of the CDI devices that claims for devices are.
const deviceKind = "fairlead.dev/device"

// mostFormer bounds how many nodes that are gone are remembered of a claim.
const mostFormer = 32

// newDevice makes a claim for a device. A match that fits
// several, where one is asked for, is refused while a person can still mend it;
// one that fits none may fit what is plugged in later.
func (k *Keeper) newDevice(req *claim.Request, now time.Time) (*entry, error) {
	m, err := device.ParseMatch(req.Device.Match)
	if err != nil {
		return nil, claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	found, err := k.cfg.Devices.Find(k.ctx, m)
	if err != nil {
		return nil, err
	}
	d := &claim.Device{DeviceSpec: *req.Device}
	_, problem := choose(d, found)
	if problem != "" && len(found) > 0 {
		return nil, claim.Errorf(claim.CodeConflict, "claim %q: %s", req.Name, problem).
			WithHint("name one of them, or give --all; see them with: fairlead cdi generate --list '%s'", d.Match)
	}
	e := newEntry(&ledger.Record{
		Claim: claim.Claim{
			Kind: req.Kind, Name: req.Name, UID: claim.NewUID(), CreatedAt: now.UTC(),
			Device: d, Phase: claim.PhasePending, Message: problem, Accesses: []claim.Access{},
		},
		Asked: req.Asked(),
	})
	e.found.Store(&found)
	return e, nil
}

// choose says which of the devices that fit a claim's match are the claim's, or
// what keeps them from being so, for a person to read. Where several fit and one
// is asked for, it is the one that was chosen first: another that is plugged in
// beside it changes nothing.
func choose(d *claim.Device, found []device.Device) (chosen []device.Device, problem string) {
	switch {
	case len(found) == 0 && d.Chosen != "":
		return nil, fmt.Sprintf("%s is not there; it is waited for", d.Chosen)
	case len(found) == 0:
		return nil, fmt.Sprintf("no device fits %s; one is waited for", d.Match)
	case d.All || len(found) == 1:
		chosen = found
	default:
		i := slices.IndexFunc(found, func(f device.Device) bool { return identity(f) == d.Chosen })
		if i < 0 {
			return nil, fmt.Sprintf("%d devices fit %s, and one is asked for: %s", len(found), d.Match, strings.Join(identities(found), ", "))
		}
		chosen = found[i : i+1]
	}
	if d.Path != "" {
		if n := len(chosen[0].Nodes); n != 1 {
			return nil, fmt.Sprintf("%s has %d nodes, and cannot be at one path: %s", identity(chosen[0]), n, d.Path)
		}
		one := chosen[0]
		one.Nodes = slices.Clone(one.Nodes)
		one.Nodes[0].Path = d.Path
		chosen = []device.Device{one}
	}
	return chosen, ""
}

// identity names a device as a match does.
func identity(d device.Device) string { return string(d.Kind) + ":" + d.Name }

func identities(list []device.Device) (names []string) {
	for _, d := range list {
		names = append(names, identity(d))
	}
	return names
}

// nextOfDevice is what a claim for a device needs next: what the last look found
// is carried out, unless it is already.
func nextOfDevice(rec *ledger.Record, found, carried *[]device.Device) step {
	switch {
	case rec.Claim.Phase == claim.PhaseReleasing:
		return step{name: "withdraw", do: (*Keeper).endDevice}
	case found != nil && found != carried:
		return step{name: "publish", do: (*Keeper).carryDevice}
	}
	return step{}
}

// carryDevice makes the CDI spec and the record say what was found.
func (k *Keeper) carryDevice(_ context.Context, e *entry, rec *ledger.Record, _ string) error {
	found := e.found.Load()
	now := *rec.Claim.Device
	chosen, problem := choose(&now, *found)
	digest, err := k.writeDevice(rec, chosen)
	if err != nil {
		return err
	}
	now.Name, now.Found, now.Nodes = "", identities(chosen), nodesOf(chosen)
	if len(chosen) > 0 {
		if k.cfg.CDIDir != "" {
			now.Name = deviceKind + "=" + rec.Claim.Name
		}
		if !now.All {
			now.Chosen = identity(chosen[0])
		}
	}
	now.Former = former(rec.Claim.Device, now.Nodes)
	if err := k.recordDevice(e, rec, now, problem, digest); err != nil {
		return err
	}
	e.carried = found
	return nil
}

// recordDevice writes down what has become of a device, if that is news.
func (k *Keeper) recordDevice(e *entry, rec *ledger.Record, now claim.Device, problem, digest string) error {
	phase := claim.PhaseReady
	if problem != "" {
		phase = claim.PhasePending
	}
	c := &rec.Claim
	if c.Phase == phase && c.Message == problem && reflect.DeepEqual(*c.Device, now) && rec.Published[""] == digest {
		return nil
	}
	return k.result(e, "publish", func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		if c.Phase == claim.PhaseReleasing {
			return nil, nil // its end takes the spec away
		}
		events := k.deviceEvents(c.Device, &now, problem)
		c.Device, c.Phase, c.Message = &now, phase, problem
		setPublished(rec, "", digest)
		return events, nil
	})
}

// deviceEvents tell what has changed, and of the containers that cannot see it.
func (k *Keeper) deviceEvents(was, now *claim.Device, problem string) (events []claim.Event) {
	switch {
	case problem != "" && len(was.Nodes) > 0:
		events = append(events, k.warning("Gone", "%s; no container is given it meanwhile", problem))
	case problem != "":
		events = append(events, k.warning("Waiting", "%s", problem))
	case len(was.Nodes) == 0:
		events = append(events, k.event("Found", "%s, %s", strings.Join(now.Found, ", "), nodeList(now.Nodes)))
	case !slices.Equal(was.Nodes, now.Nodes):
		events = append(events, k.event("Changed", "%s is %s now, and was %s", strings.Join(now.Found, ", "), nodeList(now.Nodes), nodeList(was.Nodes)))
	}
	for _, u := range staleUsers(now.Former) {
		events = append(events, k.warning("Stale", "%s", staleness(u)))
	}
	return events
}

// staleness says what a container has that is not so any more.
func staleness(u claim.DeviceUser) string {
	return fmt.Sprintf("process %d (%s), in a container, still has %s, which is gone: it sees neither that nor the device's return; start it again",
		u.PID, u.Comm, nodeList([]claim.DeviceNode{u.Node}))
}

// nodeList is nodes for a person to read: /dev/ttyUSB0 (188:0).
func nodeList(nodes []claim.DeviceNode) string {
	var list []string
	for _, n := range nodes {
		list = append(list, fmt.Sprintf("%s (%d:%d)", n.Path, n.Major, n.Minor))
	}
	return strings.Join(list, ", ")
}

func nodesOf(list []device.Device) (nodes []claim.DeviceNode) {
	for _, d := range list {
		for _, n := range d.Nodes {
			node := claim.DeviceNode{Path: n.Path, HostPath: n.HostPath, Type: n.Type, Major: n.Major, Minor: n.Minor}
			if !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	return nodes
}

// former are the nodes that a claim had and has no more, as far as a container
// has them still.
func former(was *claim.Device, now []claim.DeviceNode) []claim.DeviceNode {
	var gone []claim.DeviceNode
	for _, n := range append(slices.Clone(was.Former), was.Nodes...) {
		same := func(o claim.DeviceNode) bool { n.HostPath, o.HostPath = "", ""; return n == o }
		if !slices.ContainsFunc(now, same) && !slices.ContainsFunc(gone, same) {
			gone = append(gone, n)
		}
	}
	users := staleUsers(gone)
	gone = slices.DeleteFunc(gone, func(n claim.DeviceNode) bool {
		return !slices.ContainsFunc(users, func(u claim.DeviceUser) bool { return u.Node == n })
	})
	if len(gone) == 0 {
		return nil
	}
	return gone[max(0, len(gone)-mostFormer):]
}

// staleUsers are the containers that have one of the nodes. What cannot be looked
// at, such as other users' processes, is passed over.
func staleUsers(nodes []claim.DeviceNode) (users []claim.DeviceUser) {
	if len(nodes) == 0 {
		return nil
	}
	var paths []string
	for _, n := range nodes {
		if !slices.Contains(paths, n.Path) {
			paths = append(paths, n.Path)
		}
	}
	holders, _ := mount.Holders(paths)
	for _, h := range holders {
		for _, n := range nodes {
			if h.Path == n.Path && h.Type == n.Type && h.Major == n.Major && h.Minor == n.Minor {
				users = append(users, claim.DeviceUser{PID: h.PID, Comm: h.Comm, Node: n})
			}
		}
	}
	return users
}

// writeDevice makes the CDI spec be that of the devices, or not be there if there
// are none. It returns the digest of what is published.
func (k *Keeper) writeDevice(rec *ledger.Record, chosen []device.Device) (digest string, err error) {
	name := rec.Claim.Name
	if k.cfg.CDIDir == "" {
		return "", nil
	}
	if len(chosen) == 0 {
		return "", k.withdrawDevice(name)
	}
	spec := k.cfg.Devices.SpecOfOne(deviceKind, name, chosen)
	edits := &spec.Devices[0].ContainerEdits
	edits.Env = append(edits.Env, creds.DevicePointers(name, chosen[0].Nodes[0].Path)...)
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("make the CDI spec of claim %q: %w", name, err)
	}
	sum := sha256.Sum256(text)
	digest = hex.EncodeToString(sum[:])
	if digest == rec.Published[""] && k.isThere(deviceFile(name)) {
		return digest, nil
	}
	at("publish:spec")
	// Without fsync: what a power cut leaves behind is written again.
	return digest, cdi.Write(k.cfg.CDIDir, deviceFile(name), spec, cdi.NoSync)
}

// isThere reports whether a spec of ours is there, whole.
func (k *Keeper) isThere(file string) bool {
	fi, err := os.Lstat(filepath.Join(k.cfg.CDIDir, file))
	return err == nil && fi.Mode().IsRegular() && fi.Size() > 0
}

func (k *Keeper) withdrawDevice(name string) error {
	if k.cfg.CDIDir == "" {
		return nil
	}
	if err := cdi.Remove(k.cfg.CDIDir, deviceFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// releaseDevice begins to let a device go.
func (k *Keeper) releaseDevice(c *claim.Claim, req claim.ReleaseRequest) ([]claim.Event, error) {
	switch {
	case req.Abandon || req.DeleteData != nil && *req.DeleteData:
		return nil, claim.Errorf(claim.CodeInvalid, "claim %q is for a device: it has no data to delete and no driver to abandon", c.Name)
	case c.Phase == claim.PhaseReleasing:
		return nil, errUnchanged
	}
	c.Phase, c.Message = claim.PhaseReleasing, ""
	return []claim.Event{k.event("Releasing", "containers that run keep %s", nodeList(c.Device.Nodes))}, nil
}

// bucketsOnly refuses what can be done with the claim for a bucket only.
func bucketsOnly(c *claim.Claim) error {
	if c.Kind != claim.KindDevice {
		return nil
	}
	return claim.Errorf(claim.CodeInvalid, "claim %q is for a device, which has no accesses and no credentials", c.Name).
		WithHint("see what it has: fairlead describe %s", c.Name)
}

// endDevice takes away the CDI device, then forgets the claim. A container that
// runs keeps what it was given.
func (k *Keeper) endDevice(ctx context.Context, e *entry, rec *ledger.Record, _ string) error {
	if err := k.withdrawDevice(rec.Claim.Name); err != nil {
		return err
	}
	return k.forgetClaim(ctx, e, rec, "")
}

// deviceFile is the name of the spec file of a claim for a device.
func deviceFile(name string) string { return devicePrefix + name + specSuffix }
