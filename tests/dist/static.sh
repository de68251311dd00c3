#!/bin/sh
# dist/static.sh [ARCH] - checks the static program of `make dist`: what it needs of a system (nothing), its size, that
# it prints what build/ckpt prints, and how fast it starts and lists 20,000 tensors. Of a program of another
# processor, which an emulator runs, no time is measured.
set -u
B=${B:-build} part=static
arch=${1:-$(uname -m)}
top=$PWD
static=$top/$B/dist/$arch/out/ckpt
. tests/check.sh
. tests/dist/emulator.sh
need_program "$static" "$arch"

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
check 'its functions are bound at the start' has 'FLAGS.*NOW' -d
check 'its code is not relocated' lacks TEXTREL -d
check 'no memory is writable and executable' lacks 'LOAD.* RWE ' -l
check 'its stack is not executable' has 'GNU_STACK.* RW ' -l
check 'threads have stacks of 1 MiB' has 'GNU_STACK.* 0x100000 ' -l
is_small() { wc -c <"$static"; [ "$(wc -c <"$static")" -le 7000000 ]; }
check 'it has at most 7 MB' is_small
# The program has no names of functions; the object that it is linked from has. musl has no functions that check sizes.
has_canaries() { LC_ALL=C readelf -sW "$B/dist/$arch/out/libckpt.o" | grep -q ' UND __stack_chk_fail$'; }
check 'functions with arrays look for overflows' has_canaries
# has_no_path FILE… - succeeds if no file has a path of the build
has_no_path()
{
    strings -a "$@" >"$tmp/strings" && [ -s "$tmp/strings" ] &&
        ! grep -F -e "$top" -e "${TMPDIR:-/tmp}/tmp." "$tmp/strings"
}
check 'no path of the build is in it' has_no_path "$static"
libraries=$B/dist/$arch/root
check 'no path of the build is in its libraries' has_no_path "$libraries/lib/"*.a

launcher=$static
[ -z "$emulator" ] || {
    launcher=$tmp/ckpt-$arch
    make_launcher "$launcher" "$static"
}
check 'it shows its version' "$launcher" --version

prints_the_same()
{
    mkdir -p "$tmp/a" "$tmp/b"
    sh tests/cross/outputs.sh "$top/$B/ckpt" "$tmp/a" >"$tmp/dynamic" &&
        sh tests/cross/outputs.sh "$1" "$tmp/b" >"$tmp/static" && [ -s "$tmp/static" ] &&
        diff "$tmp/dynamic" "$tmp/static"
}
check 'it prints and writes what the dynamic program does, on the whole corpus' prints_the_same "$launcher"

runner=$B/tests/bench/runner
if [ -z "$emulator" ] && [ -x "$runner" ]; then
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
