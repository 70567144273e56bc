package objectstore

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/s3response"
)

// noKeyBegins reports whether no key can begin with prefix, for which the
// backend has only errors. The part after the last slash may be the beginning
// of anything.
func noKeyBegins(prefix *string) bool {
	dir := value(prefix)[:strings.LastIndexByte(value(prefix), '/')+1]
	if dir == "" {
		return false
	}
	reason, _ := keyFault(dir)
	return reason != ""
}

// ListObjects and its kin list keys, versions and unfinished uploads.
func (g *gateway) ListObjects(ctx context.Context, in *s3.ListObjectsInput) (out s3response.ListObjectsResult, err error) {
	if noKeyBegins(in.Prefix) {
		return s3response.ListObjectsResult{Name: in.Bucket, Prefix: in.Prefix, Delimiter: in.Delimiter,
			Marker: in.Marker, MaxKeys: in.MaxKeys, IsTruncated: new(bool)}, nil
	}
	err = g.list(*in.Bucket, func() error {
		out, err = g.posix.ListObjects(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input) (out s3response.ListObjectsV2Result, err error) {
	if noKeyBegins(in.Prefix) {
		return s3response.ListObjectsV2Result{Name: in.Bucket, Prefix: in.Prefix, Delimiter: in.Delimiter,
			MaxKeys: in.MaxKeys, KeyCount: new(int32), IsTruncated: new(bool)}, nil
	}
	err = g.list(*in.Bucket, func() error {
		out, err = g.posix.ListObjectsV2(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) ListObjectVersions(ctx context.Context, in *s3.ListObjectVersionsInput) (out s3response.ListVersionsResult, err error) {
	if noKeyBegins(in.Prefix) {
		return s3response.ListVersionsResult{Name: in.Bucket, Prefix: in.Prefix, Delimiter: in.Delimiter,
			MaxKeys: in.MaxKeys, IsTruncated: new(bool)}, nil
	}
	err = g.list(*in.Bucket, func() error {
		out, err = g.posix.ListObjectVersions(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) ListMultipartUploads(ctx context.Context, in *s3.ListMultipartUploadsInput) (out s3response.ListMultipartUploadsResult, err error) {
	err = g.list(*in.Bucket, func() error {
		out, err = g.posix.ListMultipartUploads(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) list(bucket string, op func() error) error {
	if err := g.look(bucket); err != nil {
		return g.s.s3Error(err, "")
	}
	return g.s.s3Error(op(), "")
}
