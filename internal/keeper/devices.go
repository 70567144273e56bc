package keeper

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
	"github.com/fairlead/fairlead/internal/device"
)

// devices looks for the host's devices while some claim wants one.
type devices struct {
	once sync.Once
	look chan struct{} // has them looked for now
}

// deviceClaims are the claims for devices that are not being released.
func (k *Keeper) deviceClaims() (list []*entry) {
	for _, e := range k.entries() {
		rec := e.rec.Load()
		if rec != nil && rec.Claim.Kind == claim.KindDevice && rec.Claim.Phase != claim.PhaseReleasing {
			list = append(list, e)
		}
	}
	return list
}

// followDevices has devices looked for now, and from the first time on whenever
// one comes, goes or changes.
func (k *Keeper) followDevices() {
	k.devices.once.Do(func() {
		if k.admit() {
			go func() {
				defer k.work.Done()
				k.keepLooking()
			}()
		}
	})
	select {
	case k.devices.look <- struct{}{}:
	default: // somebody has asked for that already
	}
}

func (k *Keeper) keepLooking() {
	var looks <-chan struct{}
	follow := time.NewTimer(0)
	defer follow.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-follow.C:
			var err error
			if looks, err = k.cfg.Devices.Looks(k.ctx); err != nil {
				k.log.Error("devices are not followed; it is tried again", "error", err, "in", mostRetry)
				follow.Reset(mostRetry)
			}
			continue
		case _, ok := <-looks:
			if !ok { // whatever told of changes has broken off
				looks = nil
				follow.Reset(leastRetry)
			}
		case <-k.devices.look:
		}
		k.lookForDevices(k.ctx)
	}
}

// lookForDevices looks once for the devices of all claims, and has those claims
// reconciled for which something has changed.
func (k *Keeper) lookForDevices(ctx context.Context) {
	var claims []*entry
	var matches []device.Match
	for _, e := range k.deviceClaims() {
		rec := e.rec.Load()
		if rec == nil {
			continue
		}
		m, err := device.ParseMatch(rec.Claim.Device.Match)
		if err != nil { // another version of this program took it
			k.log.Error("a device cannot be looked for", "claim", e.name, "error", err)
			e.found.CompareAndSwap(nil, &[]device.Device{})
			k.kick(e)
			continue
		}
		claims, matches = append(claims, e), append(matches, m)
	}
	found, err := k.cfg.Devices.FindEach(ctx, matches...)
	if err != nil {
		if ctx.Err() == nil {
			k.log.Error("devices cannot be looked for", "error", err)
		}
		return
	}
	for i, e := range claims {
		if last := e.found.Load(); last == nil || !reflect.DeepEqual(*last, found[i]) {
			e.found.Store(&found[i])
			k.kick(e)
		}
	}
}
