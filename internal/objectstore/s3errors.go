package objectstore

import (
	"errors"
	"io/fs"
	"net/http"

	"github.com/versity/versitygw/s3err"
	"golang.org/x/sys/unix"
)

// s3Error is what an S3 client is told of err: the S3 error inside it, or the
// one that fits what the system said. Anything else stays as it is and becomes
// InternalError, which is a defect or a failing disk.
func (s *Store) s3Error(err error, key string) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[s3err.S3Error](err); ok {
		// The backend says this too when a directory entry found no room.
		if known.BaseError().Code == "ExistingObjectIsDirectory" && s.diskFull() {
			return s3err.GetAPIError(s3err.ErrNoSpaceLeftOnDevice)
		}
		return known
	}
	switch {
	case errors.Is(err, unix.ENOSPC):
		return s3err.GetAPIError(s3err.ErrNoSpaceLeftOnDevice)
	case errors.Is(err, unix.EDQUOT):
		return s3err.GetAPIError(s3err.ErrQuotaExceeded)
	case errors.Is(err, unix.ENAMETOOLONG):
		return s3err.GetKeyTooLongErr(int64(len(key)), maxKeyBytes)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR):
		return s3err.GetAPIError(s3err.ErrObjectParentIsFile)
	case errors.Is(err, fs.ErrNotExist):
		return s3err.GetAPIError(s3err.ErrNoSuchKey)
	}
	s.log.Error("answer an S3 request", "error", err)
	return err
}

// keyError is the S3 error for a key that cannot be an object here, or nil.
func keyError(key string) error {
	reason, tooLong := keyFault(key)
	switch {
	case reason == "":
		return nil
	case tooLong:
		return s3err.GetKeyTooLongErr(int64(len(key)), maxKeyBytes)
	}
	return s3err.APIError{
		Code:           "InvalidArgument",
		Description:    "The key cannot be stored: " + reason + ".",
		HTTPStatusCode: http.StatusBadRequest,
	}
}

func noSuchBucket(name string) error { return s3err.GetBucketErr(s3err.ErrNoSuchBucket, name) }

// uploadError and versionError are the S3 errors for ids that name no upload or
// version, or nil. The empty version is the newest.
func uploadError(id *string) error {
	if value(id) != "" && plainID(*id) {
		return nil
	}
	return s3err.GetAPIError(s3err.ErrNoSuchUpload)
}

func versionError(id *string) error {
	if plainID(value(id)) {
		return nil
	}
	return s3err.GetInvalidArgumentErr(s3err.InvalidArgVersionId, clip(*id))
}
