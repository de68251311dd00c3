#!/bin/sh
# cross/run.sh [TARGET…] - tests ckpt on other processors and a different C library: i386, s390x (big-endian),
# arm64, musl. Each must compile without a warning, install, pass truth, unit and cli, and write the same bytes as
# this machine. A target that cannot run here (no network, no emulator) is skipped with a message. CROSS_EVERY=1
# converts all files of the corpus, not every tenth. JOBS is the number of cases of tests/cli, and of processes
# of unit tests, that run at a time.
set -u
B=${B:-build} MAKE=${MAKE:-make} JOBS=${JOBS:-$(nproc)}
top=$PWD
work=$top/$B/cross
mkdir -p "$work"
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
unset MAKEFLAGS MFLAGS MAKELEVEL CFLAGS CPPFLAGS LDFLAGS || :
passed=0 failed=0 skipped=0

skip()
{
    skipped=$((skipped + 1))
    echo "cross skipped: $1"
}

# sum_counts LOG - prints the sums of the counts that all processes wrote to LOG
sum_counts()
{
    grep -aE '^[a-z]+: [0-9]+ passed' "$1" |
        awk '{passed += $2; failed += $4; skipped += $6}
            END {if (NR) printf "%d passed, %d failed, %d skipped", passed, failed, skipped}'
}

# check TITLE COMMAND… - runs COMMAND; prints its errors if it fails, else its counts and what was skipped
check()
{
    title=$1
    shift
    begin=$(date +%s)
    if "$@" >"$tmp/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $title ($(($(date +%s) - begin)) s) $(sum_counts "$tmp/log")"
        grep -aE '^[^ ]+ skipped: ' "$tmp/log" | sed 's/^/    /'
    else
        failed=$((failed + 1))
        echo "FAIL $title"
        grep -aEi 'fail|warning|error|^ *[0-9]+\.|^[-+<>]' "$tmp/log" | cut -c1-300 | head -n 40
        tail -n 5 "$tmp/log" | cut -c1-300
    fi
}

# set_target NAME - sets for the target NAME:
#   gcc, command       the compiler, alone and with options
#   emulator, options  the emulator and its options
#   libraries          the script that installs the libraries of the target
#   arch               the architecture, as Debian names it
#   dir, out           the folder of the target, and that of its build
set_target()
{
    emulator= options= libraries=sysroot.sh
    case $1 in
    i386) gcc=i686-linux-gnu-gcc arch=i386 emulator=qemu-i386 ;;
    s390x) gcc=s390x-linux-gnu-gcc arch=s390x emulator=qemu-s390x ;;
    arm64)
        gcc=aarch64-linux-gnu-gcc arch=arm64 emulator=qemu-aarch64
        options='-cpu max,pauth-impdef=on' # without it, pointer authentication takes two thirds of the time
        ;;
    musl) gcc=musl-gcc arch=musl libraries=musl.sh ;;
    *) return 1 ;;
    esac
    dir=$work/$arch # absolute, for the compiler
    out=$B/cross/$arch/out # relative, for make
    if [ "$libraries" = musl.sh ]; then
        command="$gcc -isystem $dir/sysroot/include -L$dir/sysroot/lib -Wl,-rpath,$dir/sysroot/lib"
    else
        command="$gcc --sysroot=$dir/sysroot"
    fi
}

# find_emulator - sets $emulator to the path of an installed emulator, or to nothing if this machine itself can run
# programs of the target; fails if neither is possible
find_emulator()
{
    printf 'int main(void) { return 0; }\n' >"$tmp/try.c"
    # shellcheck disable=SC2086
    $command -static -o "$tmp/try" "$tmp/try.c" || return 1
    if "$tmp/try" 2>/dev/null; then
        emulator=
        # Without an emulator, a program has to find the loader and the libraries in the target's sysroot itself.
        [ "$arch" != i386 ] || command="$command -Wl,--dynamic-linker=$dir/sysroot/lib/ld-linux.so.2 \
            -Wl,--disable-new-dtags -Wl,-rpath,$dir/sysroot/lib/i386-linux-gnu:$dir/sysroot/usr/lib/i386-linux-gnu"
        return
    fi
    for name in "$emulator-static" "$emulator"; do
        path=$(command -v "$name") && emulator=$path && return # the path, because some tests change PATH
    done
    return 1
}

# make_launcher PROGRAM - makes a link in $dir to PROGRAM of the target, or a script that runs it by the emulator
make_launcher()
{
    launcher=$dir/${1##*/}
    rm -f "$launcher"
    [ "$emulator" ] || { ln -s "$dir/out/$1" "$launcher"; return; }
    printf '#!/bin/sh\nexec %s %s -L "%s" "%s" "$@"\n' "$emulator" "$options" "$dir/sysroot" "$dir/out/$1" >"$launcher"
    chmod +x "$launcher"
}

# build_target - builds the programs; fails if there is a warning, too
build_target()
{
    "$MAKE" -j"$(nproc)" --no-print-directory B="$out" CC="$command" all "$out/unit" "$out/tests/truth" \
        >"$tmp/made" 2>&1
    status=$?
    grep -aE -A6 'warning:|error:' "$tmp/made"
    [ $status = 0 ] && ! grep -aq 'warning:' "$tmp/made"
}

# run_unit UNIT - runs all suites, five in each process. With an emulator, several processes run at a time.
run_unit()
{
    processes=1
    [ -z "$emulator" ] || processes=$JOBS
    sed -n 's/^SUITE(\(.*\))$/\1/p' tests/unit/suites.def >"$tmp/suites"
    [ -s "$tmp/suites" ] && xargs -n 5 -P "$processes" sh -c 'log=$1/unit.$$ unit=$2
        shift 2
        "$unit" "$@" >"$log" 2>&1
        status=$?
        cat "$log"
        exit $status' sh "$tmp" "$1" <"$tmp/suites"
}

install_target() { "$MAKE" --no-print-directory B="$out" CC="$command" install DESTDIR="$tmp/installed"; }

# check_5_gb CKPT - checks that CKPT reads the end of a sparse file of 5 GB
check_5_gb()
{
    # the length of the header is 71, octal 107
    header='{"t":{"dtype":"U8","shape":[5000000000],"data_offsets":[0,5000000000]}}'
    { printf '\107\0\0\0\0\0\0\0%s' "$header"; } >"$tmp/5gb.safetensors"
    truncate -s 5000000078 "$tmp/5gb.safetensors" && printf '\7' >>"$tmp/5gb.safetensors"
    "$1" show "$tmp/5gb.safetensors" 't[4999999998:5000000000]' | grep -qx '  0  7'
    status=$?
    rm -f "$tmp/5gb.safetensors"
    return $status
}

# compare_outputs CKPT - checks that CKPT prints and writes the same as ckpt of this machine
compare_outputs()
{
    [ -e "$tmp/native" ] || sh tests/cross/outputs.sh "$top/$B/ckpt" "$tmp" >"$tmp/native" || return 1
    sh tests/cross/outputs.sh "$1" "$tmp" >"$tmp/target" && [ -s "$tmp/native" ] && diff "$tmp/native" "$tmp/target"
}

test_target()
{
    set_target "$1" || { echo "cross: no target $1"; exit 2; }
    command -v "$gcc" >/dev/null 2>&1 || { skip "$1: no $gcc"; return; }
    if ! sh "tests/cross/$libraries" $([ "$arch" = musl ] || echo "$arch") "$dir" >"$dir.log" 2>&1; then
        skip "$1: its libraries could not be installed: $(tail -n 1 "$dir.log")"
        return
    fi
    find_emulator || { skip "$1: no $emulator"; return; }
    for program in ckpt unit tests/truth; do make_launcher $program; done
    ln -sfn "$top/man" "$dir/man" # where ckpt finds the manual in a source tree
    check "$1: builds, without a warning" build_target
    check "$1: make install" install_target
    check "$1: truth" "$dir/truth" tests/corpus
    check "$1: unit" run_unit "$dir/unit"
    check "$1: cli" env ${emulator:+EMULATED=1} JOBS="$JOBS" CKPT="$dir/ckpt" sh tests/cli/run.sh
    check "$1: a file of 5 GB" check_5_gb "$dir/ckpt"
    check "$1: the same bytes as on this machine" compare_outputs "$dir/ckpt"
}

for name in ${*:-i386 musl arm64 s390x}; do test_target "$name"; done
echo "cross: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
