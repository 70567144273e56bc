package cosi

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// How a defect gets into the reference driver: by changing what goes into one
// of its calls, or what comes out.

func (r *reference) named(name string) {
	r.info = func() (*cosipb.DriverGetInfoResponse, error) { return &cosipb.DriverGetInfoResponse{Name: name}, nil }
}

func (r *reference) beforeCreate(change func(*createRequest)) {
	r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
		change(req)
		return r.goodCreate(req)
	}
}

func (r *reference) afterCreate(change func(*cosipb.DriverCreateBucketResponse)) {
	r.create = func(req *createRequest) (*cosipb.DriverCreateBucketResponse, error) {
		resp, err := r.goodCreate(req)
		if err == nil {
			change(resp)
		}
		return resp, err
	}
}

func (r *reference) beforeGrant(change func(*grantRequest)) {
	r.grant = func(req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
		change(req)
		return r.goodGrant(req)
	}
}

func (r *reference) afterGrant(change func(*cosipb.DriverGrantBucketAccessResponse)) {
	r.grant = func(req *grantRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
		resp, err := r.goodGrant(req)
		if err == nil {
			change(resp)
		}
		return resp, err
	}
}

// onError replaces the error of every call.
func (r *reference) onError(replace func(*status.Status) error) {
	r.handle = func(_ context.Context, call func() (any, error)) (any, error) {
		resp, err := call()
		if err != nil {
			return nil, replace(status.Convert(err))
		}
		return resp, nil
	}
}

func (r *reference) recode(from, to codes.Code) {
	r.onError(func(st *status.Status) error {
		if st.Code() == from {
			return status.Error(to, st.Message())
		}
		return st.Err()
	})
}

func (r *reference) has(bucket string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.buckets[bucket]
	return ok
}

func (r *reference) parametersOf(bucket string) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buckets[bucket]
}

func (r *reference) revokeAll(bucket string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for account, g := range r.grants {
		if g.bucket == bucket {
			delete(r.grants, account)
		}
	}
}
