#!/bin/sh
# dist/static.sh [ARCH] - checks the static program of `make dist`: what it needs of a system (nothing), its size, that
# it prints what build/ckpt prints, and how fast it starts and lists 20,000 tensors. QEMU is the emulator for a
# program of another processor, of which no time is measured.
set -u
B=${B:-build} part=static
arch=${1:-$(uname -m)}
top=$PWD
static=$top/$B/dist/$arch/out/ckpt
. tests/check.sh
[ -x "$static" ] || {
    skip "there is no $static: run make dist"
    summary
    exit
}
native=
[ "$arch" != "$(uname -m)" ] || native=1

elf() { LC_ALL=C readelf -W "$@" "$static"; }
# lacks PATTERN OPTION… - succeeds if readelf prints no line with PATTERN
lacks()
{
    pattern=$1
    shift
    elf "$@" >"$tmp/elf" && ! grep "$pattern" "$tmp/elf"
}
has()
{
    pattern=$1
    shift
    elf "$@" >"$tmp/elf" && grep -q "$pattern" "$tmp/elf" || { echo "no $pattern"; return 1; }
}
check 'it needs no loader' lacks INTERP -l
check 'it needs no library' lacks NEEDED -d
check 'it has no path of libraries' lacks 'RPATH\|RUNPATH' -d
check 'it is position-independent' has 'DYN ' -h
check 'its tables are read-only after the start' has GNU_RELRO -l
check 'its stack is not executable' has 'GNU_STACK.* RW ' -l
check 'threads have stacks of 1 MiB' has 'GNU_STACK.* 0x100000 ' -l
is_small() { wc -c <"$static"; [ "$(wc -c <"$static")" -le 7000000 ]; }
check 'it has at most 7 MB' is_small
has_no_path() { ! strings "$static" | grep -F -e "$top" -e /tmp/tmp.; }
check 'no path of the build is in it' has_no_path

# run_static ARGUMENT… - runs the program
run_static() { ${QEMU-} "$static" "$@"; }
check 'it shows its version' run_static --version

# in_root DIR ARGUMENT… - runs the program DIR/ckpt, with DIR as the root
in_root()
{
    dir=$1
    shift
    if [ "$(id -u)" = 0 ]; then chroot "$dir" /ckpt "$@"; else unshare -Ur chroot "$dir" /ckpt "$@"; fi
}
works_in_root()
{
    mkdir "$tmp/empty" && cp "$static" "$tmp/empty/ckpt" && cp tests/data/examples/train.pt "$tmp/empty" &&
        in_root "$tmp/empty" ls /train.pt >"$tmp/in" && "$B/ckpt" ls tests/data/examples/train.pt >"$tmp/out" &&
        in_root "$tmp/empty" hash /train.pt >"$tmp/hash" && diff "$tmp/in" "$tmp/out" &&
        in_root "$tmp/empty" convert /train.pt /train.safetensors && [ -s "$tmp/empty/train.safetensors" ]
}
if [ "$native" ]; then
    check 'it works in an empty root' works_in_root
else
    skip "a root of $arch, which needs the emulator in it"
fi

prints_the_same()
{
    mkdir -p "$tmp/a" "$tmp/b"
    sh tests/cross/outputs.sh "$top/$B/ckpt" "$tmp/a" >"$tmp/dynamic" &&
        sh tests/cross/outputs.sh "$1" "$tmp/b" >"$tmp/static" && [ -s "$tmp/static" ] &&
        diff "$tmp/dynamic" "$tmp/static"
}
launcher=$static
[ "$native" ] || {
    launcher=$tmp/ckpt-$arch
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${QEMU-}" "$static" >"$launcher"
    chmod +x "$launcher"
}
check 'it prints and writes what the dynamic program does, on the whole corpus' prints_the_same "$launcher"

runner=$B/tests/bench/runner
if [ "$native" ] && [ -x "$runner" ]; then
    # ratio_at_most PER_MILLE COMMAND… -- YARDSTICK… - succeeds if COMMAND takes at most that part of the time
    ratio_at_most()
    {
        limit=$1
        shift
        "$runner" -b 9 -n 15 "$@" | tee "$tmp/ratio" &&
            awk -v limit="$limit" '{exit !($5 * 1000 <= limit)}' "$tmp/ratio"
    }
    check 'it starts faster than /bin/true' ratio_at_most 1000 "$static" --version -- /bin/true
    for kind in safetensors pt; do
        "$B/tests/bench/mkckpt" -n 20000 -b 8M "$tmp/big.$kind" >/dev/null
        check "it lists 20,000 tensors of a .$kind in 1.3 of the time" \
            ratio_at_most 1300 "$static" ls "$tmp/big.$kind" -- "$B/ckpt" ls "$tmp/big.$kind"
    done
else
    skip 'no time is measured here'
fi
summary
