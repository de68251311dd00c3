#!/bin/sh
# dist/cli.sh - runs the tests of tests/cli with the static program of `make dist`. It is copied to B/ckpt-static,
# because the program finds its manual next to the folder that it is in.
set -u
B=${B:-build}
static=$B/dist/$(uname -m)/out/ckpt
[ -x "$static" ] || {
    echo "cli skipped: there is no $static: run make dist"
    echo 'cli: 0 passed, 0 failed, 1 skipped'
    exit
}
cp "$static" "$B/ckpt-static"
CKPT=$PWD/$B/ckpt-static JOBS=${JOBS:-$(nproc)} sh tests/cli/run.sh "$@"
