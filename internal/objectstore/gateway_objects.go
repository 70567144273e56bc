package objectstore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"
)

// PutObject writes one object.
func (g *gateway) PutObject(ctx context.Context, in s3response.PutObjectInput) (out s3response.PutObjectOutput, err error) {
	c := charge{key: *in.Key, bytes: value(in.ContentLength), replaces: g.replaces(*in.Bucket)}
	err = g.write(*in.Bucket, c, func() error {
		out, err = g.posix.PutObject(ctx, in)
		return err
	})
	return out, err
}

// replaces reports whether writing an object takes the place of the one before
// instead of adding a version.
func (g *gateway) replaces(bucket string) bool {
	b := g.s.bucket(bucket)
	return b == nil || !b.Options.Versioning
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// CopyObject copies one object; the server has checked that the caller may read
// the source.
func (g *gateway) CopyObject(ctx context.Context, in s3response.CopyObjectInput) (out s3response.CopyObjectOutput, err error) {
	size, err := g.sourceSize(ctx, *in.CopySource)
	if err != nil {
		return out, err
	}
	c := charge{key: *in.Key, bytes: size, replaces: g.replaces(*in.Bucket)}
	err = g.write(*in.Bucket, c, func() error {
		out, err = g.posix.CopyObject(ctx, in)
		return err
	})
	return out, err
}

// sourceSize looks at the source of a copy.
func (g *gateway) sourceSize(ctx context.Context, source string) (int64, error) {
	bucket, key, version, err := backend.ParseCopySource(source)
	if err != nil {
		return 0, err
	}
	in := &s3.HeadObjectInput{Bucket: &bucket, Key: &key}
	if version != "" {
		in.VersionId = &version
	}
	if err := versionError(&version); err != nil {
		return 0, err
	}
	out, err := g.HeadObject(ctx, in)
	if err != nil {
		return 0, err
	}
	return value(out.ContentLength), nil
}

// DeleteObject deletes one object or version, or marks it deleted.
func (g *gateway) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput) (out *s3.DeleteObjectOutput, err error) {
	err = g.write(*in.Bucket, charge{key: value(in.Key)}, func() error {
		out, err = g.posix.DeleteObject(ctx, in)
		return err
	})
	return out, err
}

// DeleteObjects deletes many, and brings them to the disk together.
func (g *gateway) DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput) (out s3response.DeleteResult, err error) {
	b := g.s.serving(*in.Bucket)
	if b == nil {
		return out, noSuchBucket(*in.Bucket)
	}
	var gone []string
	for _, o := range in.Delete.Objects {
		deleted, err := g.deleteOne(ctx, b, o)
		if err != nil {
			out.Error = append(out.Error, s3err.ObjectDeleteError(o.Key, o.VersionId, err))
			continue
		}
		out.Deleted = append(out.Deleted, deleted)
		gone = append(gone, *o.Key)
	}
	return out, g.s.s3Error(g.s.syncKeys(b, gone...), "")
}

func (g *gateway) deleteOne(ctx context.Context, b *bucket, o types.ObjectIdentifier) (d types.DeletedObject, err error) {
	if err := versionError(o.VersionId); err != nil {
		return d, err
	}
	err = g.change(b, charge{key: value(o.Key)}, func() error {
		res, err := g.posix.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.Name, Key: o.Key, VersionId: o.VersionId})
		if err != nil {
			return err
		}
		d = types.DeletedObject{Key: o.Key, VersionId: o.VersionId, DeleteMarker: res.DeleteMarker}
		if value(res.DeleteMarker) {
			d.DeleteMarkerVersionId = res.VersionId
		}
		return nil
	})
	return d, err
}

// HeadObject, GetObject and GetObjectAttributes read one object.
func (g *gateway) HeadObject(ctx context.Context, in *s3.HeadObjectInput) (out *s3.HeadObjectOutput, err error) {
	err = g.read(*in.Bucket, *in.Key, func() error {
		out, err = g.posix.HeadObject(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) GetObject(ctx context.Context, in *s3.GetObjectInput) (out *s3.GetObjectOutput, err error) {
	err = g.read(*in.Bucket, *in.Key, func() error {
		out, err = g.posix.GetObject(ctx, in)
		return err
	})
	return out, err
}

func (g *gateway) GetObjectAttributes(ctx context.Context, in *s3.GetObjectAttributesInput) (out s3response.GetObjectAttributesResponse, err error) {
	err = g.read(*in.Bucket, *in.Key, func() error {
		out, err = g.posix.GetObjectAttributes(ctx, in)
		return err
	})
	return out, err
}

// GetObjectTagging and its kin read and write what belongs to one object.
func (g *gateway) GetObjectTagging(ctx context.Context, bucket, key, version string) (tags map[string]string, err error) {
	err = g.read(bucket, key, func() error {
		tags, err = g.posix.GetObjectTagging(ctx, bucket, key, version)
		return err
	})
	return tags, err
}

func (g *gateway) PutObjectTagging(ctx context.Context, bucket, key, version string, tags map[string]string) error {
	return g.write(bucket, charge{key: key}, func() error {
		return g.posix.PutObjectTagging(ctx, bucket, key, version, tags)
	})
}

func (g *gateway) DeleteObjectTagging(ctx context.Context, bucket, key, version string) error {
	return g.write(bucket, charge{key: key}, func() error {
		return g.posix.DeleteObjectTagging(ctx, bucket, key, version)
	})
}

func (g *gateway) PutObjectRetention(ctx context.Context, bucket, key, version string, retention []byte) error {
	return g.write(bucket, charge{key: key}, func() error {
		return g.posix.PutObjectRetention(ctx, bucket, key, version, retention)
	})
}

func (g *gateway) GetObjectRetention(ctx context.Context, bucket, key, version string) (retention []byte, err error) {
	err = g.read(bucket, key, func() error {
		retention, err = g.posix.GetObjectRetention(ctx, bucket, key, version)
		return err
	})
	return retention, err
}

func (g *gateway) PutObjectLegalHold(ctx context.Context, bucket, key, version string, on bool) error {
	return g.write(bucket, charge{key: key}, func() error {
		return g.posix.PutObjectLegalHold(ctx, bucket, key, version, on)
	})
}

func (g *gateway) GetObjectLegalHold(ctx context.Context, bucket, key, version string) (on *bool, err error) {
	err = g.read(bucket, key, func() error {
		on, err = g.posix.GetObjectLegalHold(ctx, bucket, key, version)
		return err
	})
	return on, err
}
