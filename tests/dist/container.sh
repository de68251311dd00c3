#!/bin/sh
# dist/container.sh [ARCH] - checks packaging/Containerfile without a container engine: makes the root that it describes
# and runs its program there, as its user and as one without rights on this machine.
set -u
B=${B:-build} part=container
arch=${1:-$(uname -m)}
. tests/check.sh
program=$B/dist/$arch/out/ckpt file=packaging/Containerfile
# value INSTRUCTION - prints what follows INSTRUCTION in the Containerfile
value() { sed -n "s/^$1 //p" "$file"; }

if command -v hadolint >/dev/null 2>&1; then
    check 'hadolint reports nothing' sh -c "! hadolint '$file' | grep ."
else
    skip 'there is no hadolint'
fi
[ -x "$program" ] || {
    skip "there is no $program: run make dist"
    summary
    exit
}
if [ "$arch" != "$(uname -m)" ]; then
    skip "the program is for $arch"
    summary
    exit
fi
root=$tmp/root data=$tmp/root$(value WORKDIR)
start=$(value ENTRYPOINT | sed 's/^\["\(.*\)"\]$/\1/')
copied=$(value COPY | sed 's/.* //')
mkdir -p "$data"
cp "$program" "$root$copied"
cp tests/data/examples/train.pt "$data"
chmod 755 "$tmp" "$root"
chmod 777 "$data"
check 'it starts the program that it copies' test "$start" = "$copied"
check 'the root has one file' test "$(find "$root" -type f ! -path "$data/*")" = "$root$copied"

# enter COMMAND… - changes the root in a new user namespace, in which no user of this machine has rights
enter() { unshare -Ur chroot "$root" "$@"; }
works()
{
    "$@" "$start" --version && "$@" "$start" ls "$(value WORKDIR)/train.pt" &&
        "$@" "$start" convert -f "$(value WORKDIR)/train.pt" "$(value WORKDIR)/out.safetensors" &&
        build=$("$@" "$start" hash "$(value WORKDIR)/out.safetensors") &&
        "$@" "$start" "$(value CMD | tr -d '[]"')" && echo "$build"
}
reads_pipe() { "$@" "$start" ls - <"$data/train.pt" && "$@" "$start" info - <"$data/train.pt"; }
if unshare -Ur true 2>/dev/null; then
    check 'it works in an empty root without rights' works enter
    check 'it reads standard input there' reads_pipe enter
else
    skip 'no user namespace can be made here'
fi
if [ "$(id -u)" = 0 ]; then
    rm -f "$data"/out*
    user=$(value USER)
    check "it works as user $user" works chroot --userspec="$user" "$root"
else
    skip "to run it as user $(value USER) needs root"
fi
summary
