package cosi

import (
	"regexp"
	"strings"

	"github.com/fairlead/fairlead/cosi/cosipb"
)

var identityCases = []Case{
	{
		Name: "identity/name", Req: "COSI-027 COSI-046 COSI-139", Level: Must,
		Clause: "All Plugins SHALL implement the REQUIRED Identity service RPCs. DriverGetInfoResponse.name is REQUIRED.",
		Run:    func(t *T) { t.driverName() },
	},
	{
		Name: "identity/form", Req: "COSI-047 COSI-049", Level: Must,
		Clause: "The name MUST follow domain name notation format. It MUST be 63 characters or less, beginning and ending with an alphanumeric character ([a-z0-9A-Z]) with dashes (-), dots (.), and alphanumerics between.",
		Run:    identityForm,
	},
	{
		Name: "identity/vendor", Req: "COSI-048", Level: Should,
		Clause: "It SHOULD include the plugin's host company name and the plugin name, to minimize the possibility of collisions.",
		Run: func(t *T) {
			if name := t.driverName(); !strings.Contains(name, ".") {
				t.Errorf("name %q is one word; want a company's domain and the plugin's name", name)
			}
		},
	},
	{
		Name: "identity/same", Req: "COSI-027 COSI-028", Level: Must,
		Clause: "This call is meant to retrieve the unique provisioner Identity.",
		Run: func(t *T) {
			if first, second := t.driverName(), t.driverName(); first != second {
				t.Errorf("named %q, then %q", first, second)
			}
		},
	},
}

// label is one part of a domain name. RFC 1035 wants a letter first; real
// domains begin with digits too, and the specification's own rule allows it.
var label = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$`)

func identityForm(t *T) {
	name := t.driverName()
	if len(name) > 63 {
		t.Errorf("name %q has %d characters, want at most 63", name, len(name))
	}
	for part := range strings.SplitSeq(name, ".") {
		if !label.MatchString(part) {
			t.Errorf("name %q is no domain name: %q cannot stand between dots", name, part)
		}
	}
}

// alive fails unless the driver still answers.
func (t *T) alive(after string) {
	if _, err := t.Identity.DriverGetInfo(t.ctx, &cosipb.DriverGetInfoRequest{}); err != nil {
		t.Errorf("after %s, DriverGetInfo answered %s", after, describe(err))
	}
}

func (t *T) driverName() string {
	resp, err := t.Identity.DriverGetInfo(t.ctx, &cosipb.DriverGetInfoRequest{})
	if err != nil {
		t.Fatalf("DriverGetInfo answered %s", describe(err))
	}
	if resp.GetName() == "" {
		t.Fatalf("DriverGetInfo answered an empty name")
	}
	return resp.GetName()
}
