#!/bin/sh
# dist/cli.sh [ARCH] - runs the tests of tests/cli and tests/remote with the static program of `make dist`. It is copied
# to B/ckpt-static-ARCH, because the program finds its manual next to the folder that it is in.
set -u
B=${B:-build} arch=${1:-$(uname -m)}
static=$B/dist/$arch/out/ckpt copy=$PWD/$B/ckpt-static-$arch
. tests/dist/emulator.sh

# skip REASON - prints why nothing is tested
skip()
{
    printf 'cli skipped: %s\ncli: 0 passed, 0 failed, 1 skipped\n' "$1"
    exit
}
[ -x "$static" ] || skip "there is no $static: run make dist"
find_emulator "$arch" || skip "there is no emulator for programs of $arch: install qemu-user-static, or set QEMU"
cp "$static" "$copy"
[ -z "$emulator" ] || {
    make_launcher "$copy.sh" "$copy"
    copy=$copy.sh
    export EMULATED=1
}
status=0
CKPT=$copy JOBS=${JOBS:-$(nproc)} sh tests/cli/run.sh || status=1
[ "$emulator" ] || CKPT=$copy sh tests/remote/run.sh || status=1
exit $status
