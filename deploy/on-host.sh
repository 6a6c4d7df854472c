#!/bin/sh
# on-host.sh ARGS...: runs svcc ARGS with the host's programs and files, which
# are below $HOST (default /host). Standard input goes to svcc. With
# EVERY=SECONDS it runs again and again, with $RULES as standard input, until it
# is told to stop.
set -eu
binary=${SVCC:-/svcc}
host=${HOST:-/host}
dir=/var/lib/svcc # below the host; the state directory too
rules=${RULES:-/dev/stdin}

# In one step, for another container may be running the old one.
mkdir -p "$host$dir/bin"
cp "$binary" "$host$dir/bin/.svcc.$$"
chmod 0755 "$host$dir/bin/.svcc.$$"
mv -f "$host$dir/bin/.svcc.$$" "$host$dir/bin/svcc"

# Temporary files must not go to a file system that is mounted read-only.
run() {
  TMPDIR=$dir PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$host" "$dir/bin/svcc" "$@" < "$rules"
}

if [ -z "${EVERY:-}" ]; then
  run "$@"
  exit
fi
trap 'exit 0' TERM INT
while :; do
  run "$@" || echo "svcc: exit code $?; again in $EVERY s" >&2
  sleep "$EVERY" & wait $!
done
