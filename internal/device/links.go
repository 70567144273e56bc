package device

import (
	"path"
	"slices"
	"strings"
)

// linkDirs are the directories in which udev keeps links that stay the same, by
// what identifies the device and by where it is.
var linkDirs = []string{
	"/dev/disk/by-id", "/dev/serial/by-id", "/dev/v4l/by-id", "/dev/input/by-id", "/dev/snd/by-id",
	"/dev/dri/by-path",
}

// findLinks maps device nodes to the links that lead to them, in byte order. A
// link that holds a loop, or leads to no device below /dev, is not there.
func (s *scan) findLinks() map[string][]string {
	links := make(map[string][]string)
	for _, dir := range linkDirs {
		for _, name := range s.names(dir) {
			link := path.Join(dir, name)
			if node := s.resolve(link); strings.HasPrefix(node, "/dev/") && node != link {
				links[node] = append(links[node], link)
			}
		}
	}
	return links
}

// linkIn is the link to the node in one of the directories; "" if there is none.
func (s *scan) linkIn(dir, node string) string {
	for _, link := range s.links[node] {
		if path.Dir(link) == dir {
			return link
		}
	}
	return ""
}

// diskLink is the most lasting of the links to a disk or partition: one that
// names the unit worldwide before one that names maker and serial number.
func (s *scan) diskLink(node string) string {
	var links []string
	for _, link := range s.links[node] {
		if path.Dir(link) == "/dev/disk/by-id" {
			links = append(links, link)
		}
	}
	rank := func(link string) int {
		for i, prefix := range []string{"dm-uuid-", "md-uuid-", "wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nguid."} {
			if strings.HasPrefix(path.Base(link), prefix) {
				return i
			}
		}
		return 99
	}
	slices.SortStableFunc(links, func(a, b string) int { return rank(a) - rank(b) })
	if len(links) == 0 {
		return ""
	}
	return links[0]
}

// alias is the node once more, under the path of a link to it: in a container a
// node of its own, so that a program finds the device by a name that a replug
// does not change.
func alias(n Node, link string) Node {
	n.Path = link
	return n
}
