package keeper

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi"
	"github.com/fairlead/fairlead/cosi/cosipb"
	"github.com/fairlead/fairlead/internal/plugin"
)

// silence is how long a driver may take to answer before a person is told.
const silence = 2 * time.Second

// report tells a person why a step takes long while it still does: a call to a
// driver is repeated for as long as callTime before the step itself fails.
type report struct {
	k    *Keeper
	e    *entry
	step step
	said atomic.Bool
}

type reportKey struct{}

// withReport has the calls made under the context report.
func withReport(ctx context.Context, r *report) context.Context {
	return context.WithValue(ctx, reportKey{}, r)
}

// say puts a message on the claim's record.
func (r *report) say(message string) {
	r.said.Store(true)
	r.k.note(r.e, r.step, r.step.name+": "+message)
}

// told says whether the record holds a message of this report.
func (r *report) told() bool { return r.said.Load() }

// reportAttempt masks what must not be told in the error of an attempt, and
// reports one that will be made again.
func reportAttempt(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	r, ok := ctx.Value(reportKey{}).(*report)
	if err == nil || !ok {
		return err
	}
	err = r.k.withoutKeys(r.e, err)
	if ctx.Err() == nil && cosi.Retryable(err) {
		r.say(status.Convert(err).Message())
	}
	return err
}

// withoutKeys masks the keys of a claim in an error of its driver: there are
// drivers that tell them (COSI-149).
func (k *Keeper) withoutKeys(e *entry, err error) error {
	rec := e.rec.Load()
	if rec == nil {
		return err
	}
	for account, sealed := range rec.Sealed {
		var grant cosi.Grant
		plain, oerr := k.cfg.Key.Open(sealed, []byte(account))
		if oerr != nil || json.Unmarshal(plain, &grant.Credentials) != nil {
			continue // another host's key: what it hides we do not know
		}
		held := &cosipb.DriverGrantBucketAccessResponse{Credentials: map[string]*cosipb.CredentialDetails{}}
		for protocol, values := range grant.Credentials {
			maps.DeleteFunc(values, func(name, _ string) bool { return isPublic[name] })
			held.Credentials[protocol] = &cosipb.CredentialDetails{Secrets: values}
		}
		err = plugin.RedactError(err, held)
	}
	return err
}

// isPublic are the parts of credentials that an error may name.
var isPublic = map[string]bool{"endpoint": true, "region": true, "accessKeyID": true, "expiryTs": true}

// reportSilence reports a driver that is away or does not answer, until the
// returned function is called.
func reportSilence(ctx context.Context, driver string) (stop func()) {
	r, ok := ctx.Value(reportKey{}).(*report)
	if !ok {
		return func() {}
	}
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-ended:
		case <-time.After(silence):
			if !r.told() {
				r.say(fmt.Sprintf("driver %q has not answered for %s; it is waited for", driver, silence))
			}
		}
	}()
	return func() {
		close(ended)
		<-gone
	}
}
