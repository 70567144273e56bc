package objectstore

import (
	"net/url"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/s3api/utils"
	"github.com/versity/versitygw/s3err"
)

// guard turns away, before the gateway sees them, requests that it would
// misread: encryption that it would silently leave out, and keys and ids that
// are not one plain name in the bucket.
func (srv *server) guard(ctx fiber.Ctx) error {
	var err s3err.S3Error = s3err.GetAPIError(s3err.ErrSlowDown) // closing; come back
	if srv.requests.enter() {
		defer srv.requests.leave()
		err = requestError(ctx)
	}
	if err == nil {
		return ctx.Next()
	}
	requestID, hostID := utils.EnsureRequestIDs(ctx)
	ctx.Response().Header.SetContentType(fiber.MIMEApplicationXML)
	return ctx.Status(err.StatusCode()).Send(err.XMLBody(requestID, hostID))
}

func requestError(ctx fiber.Ctx) s3err.S3Error {
	for name := range ctx.Request().Header.All() {
		if isEncryptionHeader(string(name)) {
			return s3err.GetAPIError(s3err.ErrNotImplemented)
		}
	}
	args := ctx.Request().URI().QueryArgs()
	for name := range args.All() {
		if isEncryptionHeader(string(name)) { // presigned
			return s3err.GetAPIError(s3err.ErrNotImplemented)
		}
	}
	// Forms carry their fields in the body, where none of this can be seen.
	if ctx.Method() == fiber.MethodPost && strings.HasPrefix(strings.ToLower(ctx.Get("Content-Type")), fiber.MIMEMultipartForm) {
		return s3err.GetAPIError(s3err.ErrNotImplemented)
	}
	path, err := url.PathUnescape(string(ctx.Request().URI().PathOriginal()))
	if err != nil {
		return s3err.GetAPIError(s3err.ErrBadRequest)
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if key != "" {
		if err, ok := keyError(key).(s3err.S3Error); ok {
			return err
		}
	}
	if args.Has("versionId") && !plainID(string(args.Peek("versionId"))) {
		return s3err.GetInvalidArgumentErr(s3err.InvalidArgVersionId, clip(string(args.Peek("versionId"))))
	}
	if args.Has("uploadId") && !plainID(string(args.Peek("uploadId"))) {
		return s3err.GetAPIError(s3err.ErrNoSuchUpload)
	}
	return nil
}

// isEncryptionHeader matches x-amz-server-side-encryption, its -customer- and
// -aws-kms- kin, and those that open a copy's source.
func isEncryptionHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "x-amz-server-side-encryption") ||
		strings.HasPrefix(name, "x-amz-copy-source-server-side-encryption")
}
