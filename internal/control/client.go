package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/internal/claim"
)

// Client calls the daemon. It is safe for concurrent use; every error it
// returns is a *claim.Error.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient returns a client for the daemon at that socket. It does not
// connect; the first call does.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Status asks the daemon how it is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Claim states a claim and waits up to wait until it is ready. When the time
// is over, or the driver refused, both the claim and an error come back.
func (c *Client) Claim(ctx context.Context, req ClaimRequest, wait time.Duration) (ClaimResponse, error) {
	return c.change(ctx, "/v1/claims", req, wait)
}

// Claims lists all claims, by name.
func (c *Client) Claims(ctx context.Context) ([]claim.Claim, error) {
	return call[[]claim.Claim](ctx, c, http.MethodGet, "/v1/claims", nil)
}

// Get returns one claim.
func (c *Client) Get(ctx context.Context, name string) (claim.Claim, error) {
	return call[claim.Claim](ctx, c, http.MethodGet, path("claims", name), nil)
}

// Events returns the last events of a claim, oldest first.
func (c *Client) Events(ctx context.Context, name string) ([]claim.Event, error) {
	return call[[]claim.Event](ctx, c, http.MethodGet, path("claims", name, "events"), nil)
}

// Release lets a claim go and waits up to wait until it is gone.
func (c *Client) Release(ctx context.Context, name string, req ReleaseRequest, wait time.Duration) error {
	_, err := c.change(ctx, path("claims", name, "release"), req, wait)
	return err
}

// Lease records that the calling process uses the claim, and returns the claim.
func (c *Client) Lease(ctx context.Context, name string, req LeaseRequest) (claim.Claim, error) {
	resp, err := c.change(ctx, path("claims", name, "leases"), req, 0)
	return resp.Claim, err
}

// AddAccess makes a further access and waits up to wait until it is ready.
func (c *Client) AddAccess(ctx context.Context, name string, spec claim.AccessSpec, wait time.Duration) (ClaimResponse, error) {
	return c.change(ctx, path("claims", name, "accesses"), spec, wait)
}

// RotateAccess replaces the access's key and waits up to wait until the new
// one is published.
func (c *Client) RotateAccess(ctx context.Context, name, access string, req RotateRequest, wait time.Duration) (ClaimResponse, error) {
	return c.change(ctx, path("claims", name, "accesses", access, "rotate"), req, wait)
}

// RevokeAccess ends an access and waits up to wait until its keys are dead.
func (c *Client) RevokeAccess(ctx context.Context, name, access string, wait time.Duration) error {
	_, err := c.change(ctx, path("claims", name, "accesses", access, "revoke"), struct{}{}, wait)
	return err
}

// Credentials returns the credential files of an access.
func (c *Client) Credentials(ctx context.Context, name, access string) (Credentials, error) {
	return call[Credentials](ctx, c, http.MethodGet, path("claims", name, "accesses", access, "credentials"), nil)
}

// BucketClasses lists the bucket classes.
func (c *Client) BucketClasses(ctx context.Context) ([]claim.BucketClass, error) {
	return call[[]claim.BucketClass](ctx, c, http.MethodGet, "/v1/bucketclasses", nil)
}

// PutBucketClass makes or replaces a bucket class; result as in ClaimResponse.
func (c *Client) PutBucketClass(ctx context.Context, class claim.BucketClass) (result string, err error) {
	return call[string](ctx, c, http.MethodPut, path("bucketclasses", class.Name), class)
}

// DeleteBucketClass removes a bucket class. Claims made from it stay.
func (c *Client) DeleteBucketClass(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("bucketclasses", name), nil)
	return err
}

// AccessClasses lists the bucket access classes.
func (c *Client) AccessClasses(ctx context.Context) ([]claim.AccessClass, error) {
	return call[[]claim.AccessClass](ctx, c, http.MethodGet, "/v1/accessclasses", nil)
}

// PutAccessClass makes or replaces a bucket access class.
func (c *Client) PutAccessClass(ctx context.Context, class claim.AccessClass) (result string, err error) {
	return call[string](ctx, c, http.MethodPut, path("accessclasses", class.Name), class)
}

// DeleteAccessClass removes a bucket access class. Accesses made from it stay.
func (c *Client) DeleteAccessClass(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("accessclasses", name), nil)
	return err
}

// Drivers lists the drivers.
func (c *Client) Drivers(ctx context.Context) ([]claim.Driver, error) {
	return call[[]claim.Driver](ctx, c, http.MethodGet, "/v1/drivers", nil)
}

// AddDriver adds a driver and waits up to wait until it has said its name.
func (c *Client) AddDriver(ctx context.Context, req DriverRequest, wait time.Duration) (claim.Driver, error) {
	return call[claim.Driver](ctx, c, http.MethodPost, "/v1/drivers"+waitQuery(wait), req)
}

// RemoveDriver removes a driver that no claim uses.
func (c *Client) RemoveDriver(ctx context.Context, name string) error {
	_, err := call[struct{}](ctx, c, http.MethodDelete, path("drivers", name), nil)
	return err
}

// DriverLog returns the last output of a supervised driver.
func (c *Client) DriverLog(ctx context.Context, name string) (string, error) {
	return call[string](ctx, c, http.MethodGet, path("drivers", name, "log"), nil)
}

// change posts and reads an answer that may hold a claim beside an error.
func (c *Client) change(ctx context.Context, path string, req any, wait time.Duration) (ClaimResponse, error) {
	return call[ClaimResponse](ctx, c, http.MethodPost, path+waitQuery(wait), req)
}

func waitQuery(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return "?wait=" + url.QueryEscape(wait.String())
}

func path(parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, p := range parts {
		b.WriteString("/")
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// call makes one request. An answer outside 2xx becomes its *claim.Error; what
// else the answer holds is returned beside it.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (out T, err error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return out, claim.Errorf(claim.CodeInternal, "encode request: %v", err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://fairlead"+path, in)
	if err != nil {
		return out, claim.Errorf(claim.CodeInvalid, "%v", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, c.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return out, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		var e errorBody
		if json.Unmarshal(b, &e) != nil || e.Error == nil {
			return out, claim.Errorf(claim.CodeInternal, "the daemon answered %s", resp.Status)
		}
		_ = json.Unmarshal(b, &out) // a claim may stand beside the error
		return out, e.Error
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, claim.Errorf(claim.CodeInternal, "the daemon's answer to %s %s: %v", method, path, err)
	}
	return out, nil
}

// unreachable says why the daemon could not be reached, and what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return claim.Errorf(claim.CodeTimeout, "%v while waiting for the daemon", ctx.Err())
	case errors.Is(err, fs.ErrPermission):
		return claim.Errorf(claim.CodeDenied, "no permission to use the daemon's socket %s", c.socket).
			WithHint("run the command as the daemon's user (sudo), or start your own: fairlead up")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return claim.Errorf(claim.CodeUnavailable, "no daemon is running at %s", c.socket).
			WithHint("start one with: fairlead up")
	}
	return claim.Errorf(claim.CodeUnavailable, "the daemon at %s: %v", c.socket, err)
}
