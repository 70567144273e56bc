package cosi

import (
	"context"
	"testing"
	"time"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

// memoryDriver is a vendor's driver in its four methods.
type memoryDriver struct{}

func (memoryDriver) DriverCreateBucket(_ context.Context, r *cosipb.DriverCreateBucketRequest) (*cosipb.DriverCreateBucketResponse, error) {
	return &cosipb.DriverCreateBucketResponse{BucketId: r.GetName(),
		BucketInfo: &cosipb.Protocol{Type: &cosipb.Protocol_S3{S3: &cosipb.S3{Region: "eu"}}}}, nil
}

func (memoryDriver) DriverDeleteBucket(context.Context, *cosipb.DriverDeleteBucketRequest) (*cosipb.DriverDeleteBucketResponse, error) {
	return &cosipb.DriverDeleteBucketResponse{}, nil
}

func (memoryDriver) DriverGrantBucketAccess(_ context.Context, r *cosipb.DriverGrantBucketAccessRequest) (*cosipb.DriverGrantBucketAccessResponse, error) {
	return &cosipb.DriverGrantBucketAccessResponse{AccountId: r.GetName(), Credentials: map[string]*cosipb.CredentialDetails{
		"s3": {Secrets: map[string]string{"endpoint": "https://e", "region": "eu", "accessKeyID": "A", "accessSecretKey": "s"}},
	}}, nil
}

func (memoryDriver) DriverRevokeBucketAccess(context.Context, *cosipb.DriverRevokeBucketAccessRequest) (*cosipb.DriverRevokeBucketAccessResponse, error) {
	return &cosipb.DriverRevokeBucketAccessResponse{}, nil
}

// Dial and Serve understand each other, over restarts of the plugin.
//
// Req: COSI-011, COSI-137, COSI-145
func TestDialAndServe(t *testing.T) {
	path := scriptedSocket(t)
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, "d.example.com", memoryDriver{}, WithEndpoint("unix://"+path)) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	stop := start()
	c := dialScript(t, path)
	for range 2 {
		ctx := scriptedContext(t, 30*time.Second)
		b, err := c.CreateBucket(ctx, "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := c.GrantAccess(ctx, GrantRequest{BucketID: b.ID, Account: "a", Authentication: cosipb.AuthenticationType_Key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.BucketInfo("n", b.ID, cosipb.AuthenticationType_Key); err != nil {
			t.Error(err)
		}
		if err := c.RevokeAccess(ctx, b.ID, g.AccountID, nil); err != nil {
			t.Error(err)
		}
		if err := c.DeleteBucket(ctx, b.ID, nil); err != nil {
			t.Error(err)
		}
		stop()
		stop = start()
	}
	stop()
}
