package cosi

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// defects are faults that were seen in public drivers, or are easy to make.
// Each breaks the reference in one way, and lists exactly the cases that fail.
var defects = []struct {
	name   string
	damage func(r *reference)
	want   string
}{
	{"no name", func(r *reference) {
		r.info = func() (*cosipb.DriverGetInfoResponse, error) { return &cosipb.DriverGetInfoResponse{}, nil }
	}, "draft/info identity/form identity/name identity/same identity/vendor"},
	{"underscore in name", func(r *reference) { r.named("my_driver.example.com") }, "identity/form"},
	{"long name", func(r *reference) { r.named(strings.Repeat("a", 60) + ".com") }, "identity/form"},
	{"one-word name", func(r *reference) { r.named("driver") }, "identity/vendor"},
	{"another name each time", func(r *reference) {
		var n atomic.Int32
		r.info = func() (*cosipb.DriverGetInfoResponse, error) {
			return &cosipb.DriverGetInfoResponse{Name: string('a'+rune(n.Add(1)%20)) + ".example.com"}, nil
		}
	}, "identity/same"},
	{"file beside the socket", func(r *reference) { r.beside = "lock" }, "endpoint/nothing-beside"},
	{"every method is there", func(r *reference) {
		r.options = append(r.options, grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			return s.SendMsg(&emptypb.Empty{})
		}))
	}, "draft/all-calls endpoint/unknown-method"},
	{"revoke is not implemented", func(r *reference) {
		r.revoke = func(*revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			return nil, status.Error(codes.Unimplemented, "not implemented")
		}
	}, `
		concurrency/many-buckets concurrency/mixed delete/whole-life
		concurrency/revokes draft/all-calls draft/grant endpoint/all-services restart/keeps retry/revoke
		revoke/after-delete revoke/again revoke/foreign revoke/granted revoke/large-context
		revoke/long-account revoke/long-bucket revoke/no-account revoke/no-bucket revoke/others
		revoke/then-grant revoke/unknown-context use/revoked use/same-name-on-two-buckets`},

	{"empty name is accepted", func(r *reference) {
		r.beforeCreate(func(req *createRequest) {
			if req.Name == "" {
				req.Name = "default"
			}
		})
	}, "create/no-name draft/no-name endpoint/garbage"},
	{"other parameters are accepted", func(r *reference) {
		r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
			resp, err := r.goodCreate(req)
			if status.Code(err) == codes.AlreadyExists {
				return r.goodCreate(&createRequest{Name: req.GetName(), Parameters: r.parametersOf(req.GetName())})
			}
			return resp, err
		}
	}, "create/other-parameters draft/other-mode"},
	{"create of what exists is ALREADY_EXISTS", func(r *reference) {
		r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
			if r.parametersOf(req.GetName()) != nil {
				return nil, status.Error(codes.AlreadyExists, "bucket exists")
			}
			if req.Parameters == nil {
				req.Parameters = map[string]string{}
			}
			return r.goodCreate(req)
		}
	}, `
		concurrency/mixed
		concurrency/one-create create/again create/other-parameters delete/refused-keeps draft/create
		draft/field-six draft/other-mode endpoint/unknown-fields restart/keeps restart/mid-call
		retry/create? use/object-survives-repeats`},
	{"unknown parameters are ignored", func(r *reference) {
		r.beforeCreate(func(req *createRequest) { delete(req.Parameters, unknownKey) })
		r.beforeGrant(func(req *grantRequest) { delete(req.Parameters, unknownKey) })
	}, `
		create/unknown-parameter create/unknown-parameter-named draft/unknown-context
		grant/unknown-parameter`},
	{"contexts are ignored", func(r *reference) {
		r.delete = func(req *deleteRequest) (*cosipb.DriverDeleteBucketResponse, error) {
			req.DeleteContext = nil
			return r.goodDelete(req)
		}
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			req.RevokeAccessContext = nil
			return r.goodRevoke(req)
		}
	}, "delete/large-context delete/unknown-context revoke/large-context revoke/unknown-context"},
	{"unknown parameter is not named", func(r *reference) {
		r.validate = func(m proto.Message) error {
			if err := validate(m); err != nil {
				return status.Error(status.Code(err), "bad request")
			}
			return nil
		}
	}, "create/unknown-parameter-named"},
	{"unsupported is INVALID_ARGUMENT", func(r *reference) { r.recode(codes.OutOfRange, codes.InvalidArgument) }, "create/unsupported-value draft/region draft/zone"},
	{"invalid is INTERNAL", func(r *reference) { r.recode(codes.InvalidArgument, codes.Internal) }, `
		create/bad-names create/hostile-names create/large-parameters create/long-name
		create/malformed-value create/no-name create/unknown-parameter delete/large-context
		delete/long-bucket delete/no-bucket delete/unknown-context draft/no-name draft/unknown-context
		draft/unknown-mode grant/iam grant/large-parameters grant/long-bucket grant/long-name
		grant/no-authentication grant/no-bucket grant/no-name grant/other-authentication
		grant/unknown-authentication grant/unknown-parameter revoke/large-context revoke/long-account
		revoke/long-bucket revoke/no-account revoke/no-bucket revoke/unknown-context`},
	{"no bucket_info", func(r *reference) {
		r.afterCreate(func(resp *cosipb.DriverCreateBucketResponse) { resp.BucketInfo = nil })
	}, "create/new"},
	{"another bucket_info each time", func(r *reference) {
		var n atomic.Int32
		r.afterCreate(func(resp *cosipb.DriverCreateBucketResponse) {
			resp.BucketInfo.GetS3().Region = "r" + string('a'+rune(n.Add(1)%20))
		})
	}, "create/again"},
	{"limits are not checked", func(r *reference) {
		r.validate = func(m proto.Message) error {
			err := validate(m)
			if err != nil && strings.Contains(err.Error(), "more than") {
				return nil
			}
			return err
		}
	}, "create/large-parameters delete/large-context grant/large-parameters revoke/large-context"},

	{"delete of what is absent is NOT_FOUND", func(r *reference) {
		r.delete = func(req *deleteRequest) (*cosipb.DriverDeleteBucketResponse, error) {
			if req.GetBucketId() != "" && len(req.GetBucketId()) <= maxString && !r.has(req.GetBucketId()) {
				return nil, status.Error(codes.NotFound, "no such bucket")
			}
			return r.goodDelete(req)
		}
	}, `
		concurrency/deletes delete/absent delete/again draft/delete restart/keeps retry/delete?
		revoke/after-delete`},
	{"delete that is refused deletes objects", func(r *reference) {
		r.delete = func(req *deleteRequest) (*cosipb.DriverDeleteBucketResponse, error) {
			resp, err := r.goodDelete(req)
			r.mu.Lock()
			defer r.mu.Unlock()
			for name := range r.objects {
				if strings.HasPrefix(name, req.GetBucketId()+"/") {
					delete(r.objects, name)
				}
			}
			return resp, err
		}
	}, "use/object-survives-delete"},

	{"a second grant makes a second account", func(r *reference) {
		r.beforeGrant(func(req *grantRequest) {
			if req.GetName() != "" && len(req.GetName()) <= maxString {
				req.Name = rand.Text()
			}
		})
	}, `
		concurrency/mixed
		concurrency/one-grant draft/grant grant/again grant/longest-names grant/other-authentication
		grant/other-parameters restart/keeps restart/mid-call retry/grant revoke/foreign revoke/others
		revoke/unknown-context use/object-survives-repeats`},
	{"a second grant makes a second key", func(r *reference) {
		r.grant = func(req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
			resp, err := r.goodGrant(req)
			if err != nil {
				return nil, err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			g := r.grants[resp.GetAccountId()]
			g.secret = rand.Text()
			r.grants[resp.GetAccountId()] = g
			return granted(resp.GetAccountId(), g.secret), nil
		}
	}, `
		concurrency/mixed
		concurrency/one-grant draft/grant grant/again grant/longest-names grant/other-authentication
		grant/other-parameters restart/keeps restart/mid-call retry/grant revoke/foreign revoke/others
		revoke/unknown-context use/object-survives-repeats`},
	{"concurrent grants are lost", func(r *reference) {
		// The policy is read, changed and written with no lock in between.
		r.grant = func(req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
			r.mu.Lock()
			policy := map[string]grantee{}
			for account, g := range r.grants {
				if g.bucket == req.GetBucketId() {
					policy[account] = g
				}
			}
			r.mu.Unlock()
			resp, err := r.goodGrant(req)
			r.meet()
			if err != nil {
				return nil, err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			policy[resp.GetAccountId()] = r.grants[resp.GetAccountId()]
			for account, g := range r.grants {
				if _, ok := policy[account]; !ok && g.bucket == req.GetBucketId() {
					delete(r.grants, account)
				}
			}
			return resp, nil
		}
	}, "concurrency/many-grants concurrency/revokes"},
	{"one account for all", func(r *reference) {
		r.beforeGrant(func(req *grantRequest) {
			if req.GetName() != "" && len(req.GetName()) <= maxString {
				req.Name = "everybody"
			}
		})
	}, "concurrency/mixed concurrency/many-grants concurrency/revokes grant/distinct restart/keeps revoke/others use/revoked"},
	{"no credentials", func(r *reference) {
		r.afterGrant(func(resp *cosipb.DriverGrantBucketAccessResponse) { resp.Credentials = nil })
	}, `
		concurrency/many-grants concurrency/revokes delete/refused-keeps draft/grant grant/new restart/keeps
		restart/mid-call retry/grant revoke/foreign revoke/others revoke/then-grant use/its-bucket-only
		use/object-survives-delete use/object-survives-repeats use/revoked use/same-name-on-two-buckets
		use/works`},
	{"odd secret key", func(r *reference) {
		r.afterGrant(func(resp *cosipb.DriverGrantBucketAccessResponse) {
			resp.Credentials["s3"].Secrets["access key"] = "x"
		})
	}, "grant/secret-keys"},
	{"large credentials", func(r *reference) {
		r.afterGrant(func(resp *cosipb.DriverGrantBucketAccessResponse) {
			resp.Credentials["s3"].Secrets["certificate"] = strings.Repeat("x", maxMap)
		})
	}, "status/maps"},
	{"account id grows with the names", func(r *reference) {
		r.afterGrant(func(resp *cosipb.DriverGrantBucketAccessResponse) {
			resp.AccountId += strings.Repeat("x", 100)
		})
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			req.AccountId = strings.TrimRight(req.GetAccountId(), "x")
			return r.goodRevoke(req)
		}
	}, "grant/longest-names status/strings"},
	{"any authentication is taken", func(r *reference) {
		r.beforeGrant(func(req *grantRequest) { req.AuthenticationType = key })
	}, "grant/no-authentication grant/other-authentication grant/unknown-authentication"},
	{"other access parameters are accepted", func(r *reference) {
		r.beforeGrant(func(req *grantRequest) {
			if req.Parameters["mode"] == "two" {
				req.Parameters["mode"] = "one"
			}
		})
	}, "grant/other-parameters"},

	{"revoke of what is absent fails", func(r *reference) {
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			r.mu.Lock()
			_, ok := r.grants[req.GetAccountId()]
			r.mu.Unlock()
			if err := validate(req); err == nil && !ok {
				return nil, status.Error(codes.NotFound, "no such account")
			}
			return r.goodRevoke(req)
		}
	}, "concurrency/mixed draft/grant restart/keeps retry/revoke? revoke/after-delete revoke/again"},
	{"revoke asks for no bucket", func(r *reference) {
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			r.mu.Lock()
			if g, ok := r.grants[req.GetAccountId()]; ok {
				req.BucketId = g.bucket
			}
			r.mu.Unlock()
			return r.goodRevoke(req)
		}
	}, "revoke/foreign"},
	{"revoke takes all of the bucket", func(r *reference) {
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			resp, err := r.goodRevoke(req)
			if err == nil {
				r.revokeAll(req.GetBucketId())
			}
			return resp, err
		}
	}, "concurrency/mixed concurrency/revokes restart/keeps revoke/others use/revoked"},
	{"revoke does nothing", func(r *reference) {
		r.revoke = func(req *revokeRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
			return &cosipb.DriverRevokeBucketAccessResponse{}, r.validate(req)
		}
	}, `
		concurrency/revokes restart/keeps retry/revoke revoke/then-grant use/revoked
		use/same-name-on-two-buckets`},

	{"a key opens every bucket", func(r *reference) {
		r.allow = func(known bool, _ grantee, _ Access) bool { return known }
	}, "use/its-bucket-only use/revoked"},
	{"a revoked key lives on", func(r *reference) {
		r.allow = func(known bool, g grantee, a Access) bool { return !known || g.bucket == a.BucketID }
	}, "concurrency/revokes restart/keeps retry/revoke use/revoked use/same-name-on-two-buckets"},
	{"unknown fields are refused", func(r *reference) {
		r.validate = func(m proto.Message) error {
			if len(m.ProtoReflect().GetUnknown()) > 0 {
				return refuse("unknown field")
			}
			return validate(m)
		}
	}, "endpoint/unknown-fields"},

	{"a lock for all buckets", func(r *reference) {
		var busy atomic.Bool
		r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
			if !busy.CompareAndSwap(false, true) {
				return nil, status.Error(codes.Aborted, "another call is pending")
			}
			defer busy.Store(false)
			r.meet()
			return r.goodCreate(req)
		}
	}, "concurrency/many-creates retry/grant?"},
	{"a busy bucket is INTERNAL", func(r *reference) {
		var busy sync.Map
		r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
			if _, pending := busy.LoadOrStore(req.GetName(), true); pending {
				return nil, status.Error(codes.Internal, "database is locked")
			}
			defer busy.Delete(req.GetName())
			r.meet()
			return r.goodCreate(req)
		}
	}, "concurrency/mixed? concurrency/one-create retry/create?"},
	{"errors have no message", func(r *reference) {
		r.onError(func(st *status.Status) error { return status.Error(st.Code(), "") })
	}, "create/unknown-parameter-named status/message"},
	{"errors have details", func(r *reference) {
		r.onError(func(st *status.Status) error {
			detailed, err := st.WithDetails(&emptypb.Empty{})
			if err != nil {
				return err
			}
			return detailed.Err()
		})
	}, "status/details"},
	{"codes are HTTP's", func(r *reference) {
		r.onError(func(st *status.Status) error { return status.Error(codes.Code(400), st.Message()) })
	}, `
		create/bad-names create/hostile-names create/large-parameters create/long-name
		create/malformed-value create/no-name create/other-parameters create/unknown-parameter
		create/unsupported-value delete/large-context delete/long-bucket delete/no-bucket
		delete/unknown-context draft/no-name draft/other-mode draft/region draft/unknown-context
		draft/unknown-mode draft/zone grant/absent-bucket grant/iam grant/large-parameters grant/long-bucket
		grant/long-name grant/no-authentication grant/no-bucket grant/no-name grant/other-authentication
		grant/other-parameters grant/unknown-authentication grant/unknown-parameter revoke/large-context
		revoke/long-account revoke/long-bucket revoke/no-account revoke/no-bucket revoke/unknown-context
		status/code use/object-survives-delete`},

	{"draft: any region is taken", func(r *reference) {
		r.region = func(string, string) error { return nil }
	}, "draft/region draft/zone"},
	{"draft: region is INVALID_ARGUMENT", func(r *reference) {
		r.region = func(region, zone string) error {
			if region+zone != "" {
				return refuse("no region")
			}
			return nil
		}
	}, "draft/region draft/zone"},
}

func failing(report Report) []string {
	var names []string
	for _, res := range report.Results {
		if res.Outcome == Failed {
			names = append(names, res.Case.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Each defect is found by the cases that are about it, and by no other. A case
// with a question mark finds it or not, as time has it.
func TestDefectsAreFound(t *testing.T) {
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			r := newReference()
			d.damage(r)
			report, err := Check(t.Context(), r.config(t))
			if err != nil {
				t.Fatal(err)
			}
			expect(t, report, d.want)
		})
	}
}

func expect(t *testing.T, report Report, want string) {
	t.Helper()
	got := failing(report)
	for name := range strings.FieldsSeq(want) {
		name, maybe := strings.CutSuffix(name, "?")
		i := slices.Index(got, name)
		switch {
		case i >= 0:
			got = slices.Delete(got, i, i+1)
		case !maybe:
			t.Errorf("%s passes", name)
		}
	}
	if len(got) > 0 {
		t.Errorf("failing too: %s\n%s", strings.Join(got, " "), report)
	}
}

// A driver that forgets everything when it is restarted.
func TestForgetfulDriverIsFound(t *testing.T) {
	r := newReference()
	cfg := r.config(t)
	restart := cfg.Restart
	cfg.Restart = func(ctx context.Context) error {
		r.mu.Lock()
		r.forget()
		r.mu.Unlock()
		return restart(ctx)
	}
	report, err := Check(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, report, "restart/keeps restart/mid-call")
}

// A driver that dies of two calls at once, as unguarded maps do. All that is
// asked after that fails too; what matters is that the suite ends, and that
// the first failure is the case that killed it.
func TestDriverThatDiesIsFound(t *testing.T) {
	r := newReference()
	var calls atomic.Int32
	var once sync.Once
	r.handle = func(_ context.Context, call func() (any, error)) (any, error) {
		defer calls.Add(-1)
		if calls.Add(1) > 1 {
			once.Do(func() { go r.stop() })
		}
		r.meet()
		return call()
	}
	cfg := r.config(t)
	cfg.Restart = nil
	report, err := Check(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, res := range report.Failures(Must) {
		failed = append(failed, res.Case.Name)
	}
	if len(failed) == 0 || failed[0] != "concurrency/one-create" || failed[len(failed)-1] != "status/still-serving" {
		t.Errorf("failing: %v", failed)
	}
}
