#!/bin/sh
# on-host.sh ARGS...: runs svcc ARGS with the host's programs and files, which
# are below $HOST (default /host). svcc's standard input is the file $RULES, or
# $RULES.gz unpacked, or else the script's own. With EVERY=SECONDS it runs again
# and again until it is told to stop.
set -eu
binary=${SVCC:-/svcc}
host=${HOST:-/host}
dir=/var/lib/svcc # below the host; the state directory too
rules=${RULES:-}

# In one step, for another container may be running the old one.
mkdir -p "$host$dir/bin"
cp "$binary" "$host$dir/bin/.svcc.$$"
chmod 0755 "$host$dir/bin/.svcc.$$"
mv -f "$host$dir/bin/.svcc.$$" "$host$dir/bin/svcc"

# Temporary files must not go to a file system that is mounted read-only.
on_host() {
  TMPDIR=$dir PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$host" "$dir/bin/svcc" "$@"
}

# A file that is cut off on its way does not pass svcc's check of its seal.
run() {
  if [ -z "$rules" ]; then
    on_host "$@"
  elif [ -e "$rules.gz" ]; then
    gunzip -c "$rules.gz" | on_host "$@"
  else
    on_host "$@" < "$rules"
  fi
}

if [ -z "${EVERY:-}" ]; then
  run "$@"
  exit
fi
trap 'exit 0' TERM INT
while :; do
  code=0
  run "$@" || code=$?
  case $code in
  0) ;;
  6) echo "svcc: left alone; again in $EVERY s" >&2 ;;
  *) echo "svcc: exit code $code; again in $EVERY s" >&2 ;;
  esac
  sleep "$EVERY" & wait $!
done
