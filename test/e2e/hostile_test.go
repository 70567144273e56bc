package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// api makes a request of the daemon as it stands here.
func (h *host) api(method, path, body string) (status int, text string) {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", h.socket())
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(h.t.Context(), method, "http://fairlead"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// hostileNames cannot name anything.
var hostileNames = map[string]string{
	"parent": "../../etc/passwd", "dots": "..", "slash": "a/b", "backslash": `a\b`, "upper": "Photos", "dash": "-x",
	"NUL": "a\x00b", "newline": "a\nb", "escape": "a\x1b[31mb", "unicode": "phötos", "look-alike": "рhotos", "right-to-left": "a\u202eb",
	"10 KB": strings.Repeat("a", 10<<10), "64 bytes": strings.Repeat("a", 64), "space": "a b", "equals": "a=b", "comma": "a,b", "shell": "$(id)",
	"not UTF-8": "a\xff",
}

// TestHostileNames: what cannot be a name is refused at every door, briefly, and
// leaves no trace.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	h.ok("claim", "bucket", "photos")
	before := files(t, h.run)
	for what, name := range hostileNames {
		quoted, err := json.Marshal(name) // what is not UTF-8 becomes U+FFFD
		if err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{
			"/v1/claims":                 `{"kind":"bucket","name":%s}`,
			"/v1/claims/photos/accesses": `{"name":%s}`,
			"/v1/drivers":                `{"name":%s,"endpoint":"unix:///x.sock"}`,
		} {
			status, text := h.api("POST", path, fmt.Sprintf(body, quoted))
			if status != 400 || len(text) > 600 || strings.ContainsAny(text, "\x00\x1b") {
				t.Errorf("%s to %s: %d %.700s", what, path, status, text)
			}
		}
		if strings.Contains(name, "\x00") {
			continue // no program can be given that
		}
		for _, args := range [][]string{
			{"claim", "bucket", "--", name}, {"access", "add", "--", "photos." + name}, {"get", "--", name},
			{"release", "--", name}, {"env", "--", name}, {"exec", name, "--", "true"},
			{"driver", "add", "--", name, "unix:///x.sock"}, {"driver", "log", "--", name},
		} {
			r := h.try(args...)
			if r.code != 2 || r.stdout != "" || len(r.stderr) > 800 || strings.ContainsAny(r.stderr, "\x00\x1b") {
				t.Errorf("%s, fairlead %.60q: %s", what, args, r)
			}
		}
	}
	if got := h.ok("get", "-o", "name"); got != "bucket/photos\n" {
		t.Errorf("there are claims: %s", got)
	}
	if got := files(t, h.run+"/creds"); len(got) != 1 {
		t.Errorf("there are files: %v", got)
	}
	if after := files(t, h.run); strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("beside the socket there were %v, there are %v", before, after)
	}
}

// TestOversizedFields: COSI's limits hold where a person states a claim, so
// that no driver is asked what it must refuse.
//
// Req: COSI-081, COSI-082
func TestOversizedFields(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	long := strings.Repeat("v", 4097)
	h.refused(2, []string{"4096"}, "claim", "bucket", "photos", "--param", "quota="+long)
	h.refused(2, []string{"128"}, "claim", "bucket", "photos", "--prefix", long)
	h.refused(2, []string{"128"}, "claim", "bucket", "photos", "--existing", long)
	h.refused(2, nil, "claim", "bucket", "photos", "--param", "=x")
	h.refused(9, []string{"nonsense", "quota"}, "claim", "bucket", "photos", "--param", "nonsense=1")
	h.ok("release", "photos")
	if status, text := h.api("POST", "/v1/claims", `{"kind":"bucket","name":"`+strings.Repeat("x", 2<<20)+`"}`); status != 400 || !strings.Contains(text, "too large") {
		t.Errorf("2 MiB: %d %.200s", status, text)
	}
}

// TestMalformedRequests: the place of a mistake is named, in JSON and in YAML.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.up()
	for _, try := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/v1/claims", "", 400, "line 1, column 1"},
		{"POST", "/v1/claims", "{\"kind\": \"bucket\",\n  \"name\": }", 400, "line 2, column "},
		{"POST", "/v1/claims", "{\"kind\": \"bucket\",\n\"name\": 7}", 400, "line 2, column "},
		{"POST", "/v1/claims", `{"kind":"bucket","name":"a","nome":"b"}`, 400, "nome"},
		{"POST", "/v1/claims", `{"kind":"bucket","name":"a"} x`, 400, "something follows"},
		{"POST", "/v1/claims", "[]", 400, "line 1"},
		{"POST", "/v1/claims", strings.Repeat("[", 100_000), 400, "line 1"},
		{"POST", "/v1/claims?wait=soon", `{"kind":"bucket","name":"a"}`, 400, "wait=soon"},
		{"POST", "/v1/claims?wait=-1s", `{"kind":"bucket","name":"a"}`, 400, "wait=-1s"},
		{"POST", "/v1/claims", `{"kind":"volume","name":"a"}`, 400, "volume"},
		{"DELETE", "/v1/claims", "", 404, "DELETE /v1/claims"},
		{"PATCH", "/v1/claims/photos", "{}", 404, "PATCH"},
		{"GET", "/v2/claims", "", 404, "/v2/claims"},
		{"GET", "/v1/claims/..%2f..%2fhost.key", "", 400, "cannot name"},
		{"GET", "/v1/drivers/..%2f..%2fx/log", "", 404, "no driver"},
	} {
		status, text := h.api(try.method, try.path, try.body)
		if status != try.status || !strings.Contains(text, try.says) || !strings.Contains(text, `"error"`) {
			t.Errorf("%s %s %.40q: %d %.300s; want %d, %q", try.method, try.path, try.body, status, text, try.status, try.says)
		}
	}
	const head = "apiVersion: objectstorage.k8s.io/v1alpha1\nkind: BucketClaim\n"
	for text, says := range map[string]string{
		head + "metadata: {name: photos}\nspec: {protocols: [S3], colour: red}\n": ":4:25: ",
		head + "metadata:\n  name: [photos]\nspec: {protocols: [S3]}\n":           ":4:9: ",
		head + "metadata:\n\tname: photos\n":                                      ":4:",
		head + "metadata: {name: Photos}\nspec: {protocols: [S3]}\n":              ":3:18: ",
		"{\"apiVersion\": \"objectstorage.k8s.io/v1alpha1\",\n \"kind\": }":       ":2:",
		"kind: BucketClaim\n": ":1:1: ",
	} {
		file := h.run + "/bad.yaml"
		write(t, file, text, 0o600)
		h.refused(2, []string{file + says}, "apply", "-f", file)
	}
	if got := h.ok("get", "-o", "name"); got != "" {
		t.Errorf("there are claims: %s", got)
	}
}

// TestSlowCallers: callers who never finish their request keep nobody waiting,
// nor the daemon from stopping.
func TestSlowCallers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	d := h.up()
	for i := range 200 {
		c, err := net.Dial("unix", h.socket())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		begin := []string{"", "POST /v1/cl", "POST /v1/claims HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"}[i%3]
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
	}
	h.ok("claim", "bucket", "photos")
	h.key("photos").alive(t)
	d.stop()
}
