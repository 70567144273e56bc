// Package control is the daemon's API, HTTP and JSON over a UNIX socket: its
// words, its server and its client. docs/reference/api.md documents it.
package control

import (
	"github.com/fairlead/fairlead/internal/claim"
)

// ClaimRequest is the body of POST /v1/claims.
type ClaimRequest = claim.Request

// ClaimResponse answers whatever makes or changes a claim.
type ClaimResponse struct {
	Claim claim.Claim `json:"claim"`
	// Result says what the call did: "created", "exists", "changed".
	Result string `json:"result"`
}

// RotateRequest is the body of POST /v1/claims/{claim}/accesses/{access}/rotate.
type RotateRequest struct {
	// Grace is how long the old key goes on working; zero revokes it as soon
	// as the new one is published.
	Grace claim.Duration `json:"grace"`
}

// ReleaseRequest is the body of POST /v1/claims/{claim}/release.
type ReleaseRequest = claim.ReleaseRequest

// LeaseRequest is the body of POST /v1/claims/{claim}/leases. The lease
// belongs to the calling process, which the kernel names.
type LeaseRequest struct {
	Holder string `json:"holder"`
}

// Credentials answers GET /v1/claims/{claim}/accesses/{access}/credentials.
type Credentials = claim.Credentials

// Status answers GET /v1/status.
type Status struct {
	Version  string         `json:"version"`
	PID      int            `json:"pid"`
	UID      int            `json:"uid"`
	Ready    bool           `json:"ready"`
	StateDir string         `json:"stateDir"`
	RunDir   string         `json:"runDir"`
	CDIDir   string         `json:"cdiDir"`
	Socket   string         `json:"socket"`
	Claims   map[string]int `json:"claims"` // number by phase
	Drivers  []claim.Driver `json:"drivers"`
	Warnings []string       `json:"warnings,omitempty"`
}

// DriverRequest is the body of POST /v1/drivers.
type DriverRequest struct {
	Name     string   `json:"name"`
	Endpoint string   `json:"endpoint,omitempty"`
	Exec     []string `json:"exec,omitempty"`
}

// errorBody is what every answer that is not 2xx holds.
type errorBody struct {
	Error *claim.Error `json:"error"`
}
