package ldcache

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestParseConf(t *testing.T) {
	t.Parallel()
	text := "# comment\n\n  /usr/local/lib/  # more\n" +
		"include /etc/ld.so.conf.d/*.conf  more.conf\n" +
		"hwcap 1 nosegneg\nHWCAP\t1 x\n" +
		"/lib dir\r\nincluded\ninclude\n/\n////\n/old/ = libc6\n=x\n/last"
	want := []Directive{
		{Dir: "/usr/local/lib"},
		{Include: []string{"/etc/ld.so.conf.d/*.conf", "more.conf"}},
		{Dir: "/lib dir"}, {Dir: "included"}, {Dir: "include"}, {Dir: "/old"}, {Dir: "/last"},
	}
	got, err := ParseConf([]byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	if _, err := ParseConf(make([]byte, MaxConf+1)); err == nil {
		t.Error("a file of more than MaxConf bytes is read")
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add([]byte("include /etc/ld.so.conf.d/*.conf\n/lib # x\nhwcap 1 x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		directives, err := ParseConf(data)
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, d := range directives {
			if d.Dir != "" && (strings.ContainsAny(d.Dir, "#=\n\x00") || strings.HasSuffix(d.Dir, "/")) {
				t.Errorf("directory %q", d.Dir)
			}
			if strings.TrimSpace(d.Dir) != d.Dir {
				return // "/x /" is "/x ", which no file can say
			}
			if d.Dir != "" {
				again.WriteString(d.Dir + "\n")
			} else {
				again.WriteString("include " + strings.Join(d.Include, " ") + "\n")
			}
		}
		got, err := ParseConf(again.Bytes())
		if err == nil && len(got) != len(directives) {
			t.Errorf("%q reads as %+v, was %+v", again.Bytes(), got, directives)
		}
	})
}
