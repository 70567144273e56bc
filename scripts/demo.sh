#!/bin/sh
# The main job, start to end, on the embedded store: a bucket is claimed, used
# by an unmodified S3 program outside of a container and inside of one, its key
# is rotated, and it is let go; then devices of the host are handed to containers,
# with the libraries that belong to one. Each command is shown before it runs, so
# that one can learn the tool from it. Everything happens in directories of its
# own, which are removed at the end.
set -eu

work=$(mktemp -d)
run=$(mktemp -d /dev/shm/fairlead-demo.XXXXXX 2>/dev/null || mktemp -d)
name=demo-$$
specs=/var/run/cdi # where container runtimes look
# This host's own files, copied on write (--rootfs /:O), take the place of an
# image, so that none must be fetched; the limits are low enough for any machine.
podman="podman run --rm --runtime=runc --network=host --ulimit nofile=1024:1024 --ulimit nproc=4096:4096"
daemon=
examples=$(cd "$(dirname "$0")/../examples" && pwd)

cleanup() {
	if [ -n "$daemon" ]; then
		fairlead release "$name" "$name-dev" --force --if-exists >/dev/null 2>&1 || true
		kill "$daemon" 2>/dev/null || true
		wait "$daemon" 2>/dev/null || true
	fi
	rm -f "$specs/fairlead.dev-device_$name-dev.json" "$specs/example.com-$name.json"
	rm -rf "$work" "$run"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

bold=; plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi
step() { printf '\n%s# %s%s\n' "$bold" "$*" "$plain"; }
# show LINE: prints a command line and runs it.
show() {
	printf '$ %s\n' "$1"
	eval "$1"
}
# refused LINE: a command line that must fail.
refused() {
	printf '$ %s\n' "$1"
	if eval "$1"; then
		echo "demo: this should have been refused" >&2
		exit 1
	fi
}

has() { command -v "$1" >/dev/null 2>&1; }
containers() { [ "$(id -u)" = 0 ] && has podman && has runc; }

export FAIRLEAD_STATE_DIR="$work/state" FAIRLEAD_RUN_DIR="$run/run"
if [ "$(id -u)" = 0 ]; then
	export FAIRLEAD_CDI_DIR="$specs"
fi

step "The daemon: one process with a ledger, and our COSI driver with its S3 store as a child."
printf '$ fairlead up &\n'
fairlead up --s3-listen 127.0.0.1:0 2>"$work/log" &
daemon=$!
i=0
until fairlead get >/dev/null 2>&1; do
	i=$((i + 1))
	if [ $i -gt 200 ] || ! kill -0 "$daemon" 2>/dev/null; then
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.05
done

step "Claim a bucket. The template makes one more file of its credentials, for s3cmd."
show "fairlead claim bucket $name --template s3cfg=$examples/s3cfg.tmpl"

step "It is there, with a key of its own, and has a name as a CDI device."
show "fairlead get $name -o wide"
show "fairlead describe $name | head -n 20"

step "An ordinary S3 client uses it through the files: no key in a command line or an environment."
date >"$work/today.txt"
files=$(fairlead get "$name" -o json | sed -n 's/.*"directory": *"\([^"]*\)".*/\1/p' | head -n 1)
if has s3cmd; then
	show "fairlead exec $name -- sh -c 's3cmd -q -c $files/s3cfg put $work/today.txt s3://\$BUCKET_NAME/today.txt'"
	show "fairlead exec $name -- sh -c 's3cmd -q -c $files/s3cfg get --force s3://\$BUCKET_NAME/today.txt $work/back.txt'"
	show "cmp $work/today.txt $work/back.txt && echo the same"
else
	echo "skipped: s3cmd is not installed"
fi

step "A second access, for readers only: the store refuses it a write."
show "fairlead access add $name.reader --mode ReadOnly --template s3cfg=$examples/s3cfg.tmpl"
if has s3cmd; then
	reader=$files.reader
	show "fairlead exec $name.reader -- sh -c 's3cmd -c $reader/s3cfg ls s3://\$BUCKET_NAME'"
	refused "fairlead exec $name.reader -- sh -c 's3cmd -q -c $reader/s3cfg put $work/today.txt s3://\$BUCKET_NAME/no.txt'"
fi

step "A container gets the bucket as a device. Its files are mounted, its environment points at them."
if ! containers; then
	echo "skipped: needs root, podman and runc"
elif ! has s3cmd; then
	echo "skipped: s3cmd, which would run in the container, is not installed"
else
	inside=/run/fairlead/bucket/$name
	show "$podman --device fairlead.dev/bucket=$name --rootfs /:O sh -c '
    s3cmd -q -c $inside/s3cfg get s3://\$BUCKET_NAME/today.txt /tmp/today.txt && cat /tmp/today.txt &&
    echo from the container >/tmp/hello.txt &&
    s3cmd -q -c $inside/s3cfg put /tmp/hello.txt s3://\$BUCKET_NAME/hello.txt'"
	show "$podman --device fairlead.dev/bucket=$name.reader --rootfs /:O sh -c '
    s3cmd -c $inside.reader/s3cfg ls s3://\$BUCKET_NAME'"
	refused "$podman --device fairlead.dev/bucket=$name.reader --rootfs /:O sh -c '
    s3cmd -q -c $inside.reader/s3cfg put /etc/hostname s3://\$BUCKET_NAME/no.txt'"
fi

step "Rotate the key: the files change all at once, and the old key works until the grace is over."
show "cp $files/s3cfg $work/old-key"
show "fairlead access rotate $name --grace 0s"
if has s3cmd; then
	show "fairlead exec $name -- sh -c 's3cmd -c $files/s3cfg ls s3://\$BUCKET_NAME'"
	refused "fairlead exec $name -- sh -c 's3cmd -q -c $work/old-key ls s3://\$BUCKET_NAME'"
fi

step "Let it go. The keys are dead at once; the data stays unless one says otherwise."
cp "$files/s3cfg" "$work/last-key"
bucket=$(fairlead get "$name" -o json | sed -n 's/.*"bucketID": *"\([^"]*\)".*/\1/p' | head -n 1)
show "fairlead release $name"
if has s3cmd; then
	refused "s3cmd -q -c $work/last-key ls s3://$bucket"
fi

step "And back: an existing bucket can be claimed again, with what it holds."
show "fairlead claim bucket $name --existing $bucket --template s3cfg=$examples/s3cfg.tmpl"
if has s3cmd; then
	show "fairlead exec $name -- sh -c 's3cmd -c $files/s3cfg ls s3://\$BUCKET_NAME'"
fi

step "A device of this host is claimed in the same way, by what it is: it is found again after a replug."
device=
for d in /dev/fuse /dev/kvm; do
	if [ -c "$d" ]; then device=$d; fi
done
if ! containers || [ -z "$device" ]; then
	echo "skipped: needs root, podman, runc, and /dev/fuse or /dev/kvm"
else
	show "fairlead cdi generate --list $device"
	show "fairlead claim device $name-dev --match $device"
	show "$podman --device fairlead.dev/device=$name-dev --rootfs /:O sh -c 'ls -l \$DEVICE_PATH && : <>\$DEVICE_PATH && echo it opens'"
	show "fairlead release $name-dev"
fi

step "A device may bring libraries. Say its vendor has one, and the image a program that is linked to it."
if ! containers || ! has cc || ! has fairlead-hook || [ ! -f /etc/ld.so.cache ]; then
	echo "skipped: needs root, podman, runc, cc, fairlead-hook and /etc/ld.so.cache"
else
	lib=$work/libdemo.so.1.2.3 inside=/opt/demo/lib/libdemo.so.1.2.3
	show "echo 'const char *demo(void) { return \"the library answers\"; }' |
    cc -shared -fPIC -Wl,-soname,libdemo.so.1 -x c - -o $lib"
	show "echo 'const char *demo(void); int puts(const char *); int main(void) { return puts(demo()) < 0; }' |
    cc -x c - -x none $lib -o $work/program"

	step "Mounted alone it is not found: it has neither the name asked for, nor a place in the linker's cache."
	refused "$podman -v $work/program:/program -v $lib:$inside --rootfs /:O /program"

	step "So its CDI spec has hooks that make the links and update the cache of the container."
	hook=$(command -v fairlead-hook)
	cat >"$work/library.json" <<-END
		{
		  "cdiVersion": "0.3.0",
		  "kind": "example.com/$name",
		  "devices": [{"name": "library", "containerEdits": {
		    "mounts": [{"hostPath": "$lib", "containerPath": "$inside", "options": ["ro", "nosuid", "nodev", "bind"]}],
		    "hooks": [
		      {"hookName": "createContainer", "path": "$hook", "env": ["LC_ALL=C"],
		       "args": ["fairlead-hook", "create-symlinks", "--link=libdemo.so.1::/opt/demo/lib/libdemo.so"]},
		      {"hookName": "createContainer", "path": "$hook", "env": ["LC_ALL=C"],
		       "args": ["fairlead-hook", "update-ldcache", "--folder=/opt/demo/lib"]}
		    ]
		  }}]
		}
	END
	cp /etc/ld.so.cache "$work/cache"
	show "cat $work/library.json"
	show "fairlead cdi validate --strict $work/library.json"
	show "install -m 0644 $work/library.json $specs/example.com-$name.json"
	show "$podman --device example.com/$name=library -v $work/program:/program --rootfs /:O sh -c '
    /program && ls -l /opt/demo/lib && ldconfig -p | grep libdemo'"
	show "cmp /etc/ld.so.cache $work/cache && echo the cache of the host is as it was"
fi

step "Done. What this left behind is removed: the daemon, its state and its files."
