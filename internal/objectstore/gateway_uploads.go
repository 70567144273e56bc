package objectstore

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/versity/versitygw/s3response"
)

// CreateMultipartUpload begins an upload. Its directory is durable before its id
// is told, so that a part need only sync itself and that directory.
func (g *gateway) CreateMultipartUpload(ctx context.Context, in s3response.CreateMultipartUploadInput) (out s3response.InitiateMultipartUploadResult, err error) {
	err = g.upload(*in.Bucket, charge{key: *in.Key}, func() error {
		out, err = g.posix.CreateMultipartUpload(ctx, in)
		return err
	}, func(b *bucket) error {
		return g.s.syncKeys(b, filepath.Join(uploadsPath(*in.Key), out.UploadId))
	})
	return out, err
}

// upload is write with its own way of getting to the disk.
func (g *gateway) upload(bucketName string, c charge, op func() error, sync func(*bucket) error) error {
	b := g.s.serving(bucketName)
	if b == nil {
		return noSuchBucket(bucketName)
	}
	if err := g.change(b, c, op); err != nil {
		return err
	}
	step("upload changed")
	return g.s.s3Error(sync(b), c.key)
}

// UploadPart writes one part.
func (g *gateway) UploadPart(ctx context.Context, in *s3.UploadPartInput) (out *s3.UploadPartOutput, err error) {
	if err := uploadError(in.UploadId); err != nil {
		return nil, err
	}
	part := partPath(*in.Key, *in.UploadId, value(in.PartNumber))
	c := charge{key: *in.Key, part: part, replaces: true, bytes: value(in.ContentLength)}
	err = g.upload(*in.Bucket, c, func() error {
		out, err = g.posix.UploadPart(ctx, in)
		return err
	}, func(b *bucket) error { return g.s.syncPart(b, part) })
	return out, err
}

// UploadPartCopy writes one part from an object that is there.
func (g *gateway) UploadPartCopy(ctx context.Context, in *s3.UploadPartCopyInput) (out s3response.CopyPartResult, err error) {
	if err := uploadError(in.UploadId); err != nil {
		return out, err
	}
	size, err := g.sourceSize(ctx, *in.CopySource)
	if err != nil {
		return out, err
	}
	part := partPath(*in.Key, *in.UploadId, value(in.PartNumber))
	c := charge{key: *in.Key, part: part, replaces: true, bytes: rangeSize(value(in.CopySourceRange), size)}
	err = g.upload(*in.Bucket, c, func() error {
		out, err = g.posix.UploadPartCopy(ctx, in)
		return err
	}, func(b *bucket) error { return g.s.syncPart(b, part) })
	return out, err
}

func partPath(key, upload string, number int32) string {
	return filepath.Join(uploadsPath(key), upload, strconv.Itoa(int(number)))
}

func (s *Store) syncPart(b *bucket, part string) error {
	path := filepath.Join(s.bucketDir(b.Name), part)
	if err := syncFile(path); err != nil {
		return err
	}
	return s.dirs.sync(filepath.Dir(path))
}

// rangeSize is the length of "bytes=FIRST-LAST", or whole for anything else.
func rangeSize(r string, whole int64) int64 {
	first, last, ok := strings.Cut(strings.TrimPrefix(r, "bytes="), "-")
	if !ok {
		return whole
	}
	a, errA := strconv.ParseInt(first, 10, 64)
	z, errZ := strconv.ParseInt(last, 10, 64)
	if errA != nil || errZ != nil || a < 0 || z < a {
		return whole
	}
	return min(whole, z-a+1)
}

// CompleteMultipartUpload makes the parts an object. They are copied into a
// file that is synced before it takes the object's name, and only then removed.
func (g *gateway) CompleteMultipartUpload(ctx context.Context, in *s3.CompleteMultipartUploadInput) (out s3response.CompleteMultipartUploadResult, version string, err error) {
	if err := uploadError(in.UploadId); err != nil {
		return out, "", err
	}
	err = g.write(*in.Bucket, charge{key: *in.Key}, func() error {
		out, version, err = g.posix.CompleteMultipartUpload(ctx, in)
		return err
	})
	return out, version, err
}

// AbortMultipartUpload drops an upload and its parts.
func (g *gateway) AbortMultipartUpload(ctx context.Context, in *s3.AbortMultipartUploadInput) error {
	if err := uploadError(in.UploadId); err != nil {
		return err
	}
	return g.upload(*in.Bucket, charge{key: *in.Key}, func() error {
		return g.posix.AbortMultipartUpload(ctx, in)
	}, func(b *bucket) error {
		return g.s.dirs.sync(filepath.Join(g.s.bucketDir(b.Name), tmpDir, "multipart"))
	})
}

// ListParts lists the parts of one upload.
func (g *gateway) ListParts(ctx context.Context, in *s3.ListPartsInput) (out s3response.ListPartsResult, err error) {
	if err := uploadError(in.UploadId); err != nil {
		return out, err
	}
	err = g.read(*in.Bucket, *in.Key, func() error {
		out, err = g.posix.ListParts(ctx, in)
		return err
	})
	return out, err
}
