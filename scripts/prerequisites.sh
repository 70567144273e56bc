#!/bin/sh
# Brings what the demonstration and the tests use besides Go: a container
# runtime and an S3 client. On Debian as root they are installed; elsewhere what
# is missing is said, and with CI=true that is a failure.
set -eu

missing=
need() { # need PROGRAM PACKAGES
	command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need podman podman
need runc runc
need s3cmd s3cmd
need mkfs.ext4 e2fsprogs
need unshare util-linux
need systemd-analyze systemd
need cc "gcc libc6-dev" # for the race detector, and for libraries in containers
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing:$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	# shellcheck disable=SC2086 # a list of packages
	if { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
		rm -f "$log"
		exit 0
	fi
	tail -n 20 "$log" >&2
	rm -f "$log"
fi
echo "missing:$missing" >&2
echo "hint: install them with your system's package manager; what needs them is left out" >&2
[ "${CI:-}" != true ]
