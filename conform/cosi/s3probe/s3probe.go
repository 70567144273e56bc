// Package s3probe tries the keys that a COSI driver grants, with an S3 client.
// A driver's bucket id is taken to be the bucket's name.
package s3probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/fairlead/fairlead/conform/cosi"
)

// Probe is a cosi.Probe. The zero value is ready to use.
type Probe struct {
	// HTTP sends the requests; http.DefaultClient if nil. Give one that trusts
	// the store's certificate where that is not a public one.
	HTTP *http.Client
}

var _ interface {
	cosi.Probe
	cosi.Remover
} = Probe{}

// Put writes an object.
func (p Probe) Put(ctx context.Context, a cosi.Access, object string, data []byte) error {
	client, err := p.client(a)
	if err != nil {
		return err
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{Bucket: &a.BucketID, Key: &object, Body: bytes.NewReader(data)})
	return refusal(err)
}

// Get reads an object.
func (p Probe) Get(ctx context.Context, a cosi.Access, object string) ([]byte, error) {
	client, err := p.client(a)
	if err != nil {
		return nil, err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.BucketID, Key: &object})
	if err != nil {
		return nil, refusal(err)
	}
	defer out.Body.Close()
	return io.ReadAll(out.Body)
}

// Remove deletes an object.
func (p Probe) Remove(ctx context.Context, a cosi.Access, object string) error {
	client, err := p.client(a)
	if err != nil {
		return err
	}
	_, err = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.BucketID, Key: &object})
	return refusal(err)
}

// client uses the keys that upstream's COSI reads: endpoint, region,
// accessKeyID and accessSecretKey of credentials["s3"]. It tries once only, so
// that what is seen is the store's first answer.
func (p Probe) client(a cosi.Access) (*s3.Client, error) {
	secrets := a.Credentials["s3"]
	for _, k := range []string{"endpoint", "region", "accessKeyID", "accessSecretKey"} {
		if secrets[k] == "" {
			return nil, fmt.Errorf("credentials[%q] lack %q", "s3", k)
		}
	}
	opts := s3.Options{
		BaseEndpoint:               aws.String(secrets["endpoint"]),
		Region:                     secrets["region"],
		Credentials:                credentials.NewStaticCredentialsProvider(secrets["accessKeyID"], secrets["accessSecretKey"], ""),
		UsePathStyle:               true,
		RetryMaxAttempts:           1,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
	if p.HTTP != nil {
		opts.HTTPClient = p.HTTP
	}
	return s3.New(opts), nil
}

// refusal wraps cosi.ErrRefused around an answer that the key may not do that.
func refusal(err error) error {
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		if code := resp.HTTPStatusCode(); code == http.StatusForbidden || code == http.StatusUnauthorized {
			return fmt.Errorf("%w: %w", cosi.ErrRefused, err)
		}
	}
	return err
}
