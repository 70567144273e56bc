package objectstore

import (
	"io"
	"net/http"
	"testing"
)

// fetch gets a URL and returns the status.
func fetch(t testing.TB, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := do(t, req)
	return status
}

// do sends a request as it is and returns the status and the body.
func do(t testing.TB, req *http.Request) (int, string) {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
