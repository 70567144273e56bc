package keeper

import (
	"bytes"
	"context"
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
		hint := "name one of them, or give --all; see them with: fairlead cdi generate --list '%s'"
		if len(found) == 1 {
			hint = "match the node that is wanted; see them with: fairlead cdi generate --list '%s'"
		}
		return nil, claim.Errorf(claim.CodeConflict, "claim %q: %s", req.Name, problem).WithHint(hint, d.Match)
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
		if i < 0 { // of twins without serial numbers each gets another name when both are there
			i = slices.IndexFunc(found, func(f device.Device) bool { return hasNode(d.Nodes, f) })
		}
		if i < 0 {
			return nil, fmt.Sprintf("%d devices fit %s, and one is asked for: %s", len(found), d.Match, strings.Join(identities(found), ", "))
		}
		chosen = found[i : i+1]
	}
	if d.Path == "" {
		return chosen, ""
	}
	one := chosen[0]
	node := one.Nodes[0]
	if slices.ContainsFunc(one.Nodes, func(n device.Node) bool { return n.HostPath != node.HostPath }) {
		return nil, fmt.Sprintf("%s has several nodes, and cannot be at the one path %s", identity(one), d.Path)
	}
	node.Path = d.Path // and at no other, such as that of a link by id
	one.Nodes = []device.Node{node}
	return []device.Device{one}, ""
}

// hasNode reports whether a device has one of the nodes.
func hasNode(nodes []claim.DeviceNode, d device.Device) bool {
	return slices.ContainsFunc(nodesOf([]device.Device{d}), func(n claim.DeviceNode) bool {
		return slices.ContainsFunc(nodes, func(o claim.DeviceNode) bool {
			return n.HostPath == o.HostPath && n.Type == o.Type && n.Major == o.Major && n.Minor == o.Minor
		})
	})
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
	e.write.Lock() // a claim that is just being stated is durable after this, or gone
	gone := e.gone()
	e.write.Unlock()
	if gone {
		return errGone
	}
	found := e.found.Load()
	now := *rec.Claim.Device
	chosen, problem := choose(&now, *found)
	if err := k.writeDevice(rec.Claim.Name, chosen); err != nil {
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
	stale := staleUsers(goneNodes(rec.Claim.Device, now.Nodes))
	now.Former = nil
	for _, u := range stale {
		if !slices.Contains(now.Former, u.Node) && len(now.Former) < mostFormer {
			now.Former = append(now.Former, u.Node)
		}
	}
	if err := k.recordDevice(e, rec, now, stale, problem); err != nil {
		return err
	}
	e.carried = found
	return nil
}

// recordDevice writes down what has become of a device, if that is news.
func (k *Keeper) recordDevice(e *entry, rec *ledger.Record, now claim.Device, stale []claim.DeviceUser, problem string) error {
	phase := claim.PhaseReady
	if problem != "" {
		phase = claim.PhasePending
	}
	c := &rec.Claim
	if c.Phase == phase && c.Message == problem && reflect.DeepEqual(*c.Device, now) {
		return nil
	}
	return k.result(e, "publish", func(rec *ledger.Record) ([]claim.Event, error) {
		c := &rec.Claim
		if c.Phase == claim.PhaseReleasing {
			return nil, nil // its end takes the spec away
		}
		events := k.deviceEvents(c.Device, &now, stale, problem)
		c.Device, c.Phase, c.Message = &now, phase, problem
		return events, nil
	})
}

// deviceEvents tell what has changed, and of the containers that cannot see it.
func (k *Keeper) deviceEvents(was, now *claim.Device, stale []claim.DeviceUser, problem string) (events []claim.Event) {
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
	for _, u := range stale {
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

// goneNodes are the nodes that a claim had and has no more.
func goneNodes(was *claim.Device, now []claim.DeviceNode) (gone []claim.DeviceNode) {
	for _, n := range slices.Concat(was.Former, was.Nodes) {
		same := func(o claim.DeviceNode) bool { o.HostPath = n.HostPath; return n == o }
		if !slices.ContainsFunc(now, same) && !slices.ContainsFunc(gone, same) {
			gone = append(gone, n)
		}
	}
	return gone
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
// are none. One that is as it should be already is left alone.
func (k *Keeper) writeDevice(name string, chosen []device.Device) error {
	if k.cfg.CDIDir == "" {
		return nil
	}
	if len(chosen) == 0 {
		return k.withdrawDevice(name)
	}
	spec := k.cfg.Devices.SpecOfOne(deviceKind, name, chosen)
	edits := &spec.Devices[0].ContainerEdits
	edits.Env = append(edits.Env, creds.DevicePointers(name, chosen[0].Nodes[0].Path)...)
	text, err := cdi.Marshal(spec)
	if err != nil {
		return fmt.Errorf("make the CDI spec of claim %q: %w", name, err)
	}
	if old, err := os.ReadFile(filepath.Join(k.cfg.CDIDir, deviceFile(name))); err == nil && bytes.Equal(old, text) {
		return nil
	}
	at("publish:spec")
	// Without fsync: what a power cut leaves behind is written again.
	return cdi.Write(k.cfg.CDIDir, deviceFile(name), spec, cdi.NoSync)
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
