# emulator.sh - sourced: how this machine runs programs of another processor

# find_emulator ARCH - sets $emulator to the program that runs those of ARCH: QEMU, or qemu-user of the system, or
# nothing if the processor itself does; fails if there is none
find_emulator()
{
    emulator=
    [ "$1" != "$(uname -m)" ] || return 0
    for name in ${QEMU:-} "qemu-$1-static" "qemu-$1"; do
        emulator=$(command -v "$name") && return
    done
    return 1
}

# need_program PROGRAM ARCH - ends a part that uses tests/check.sh, as skipped, without PROGRAM of `make dist` or what
# runs it
need_program()
{
    if [ ! -x "$1" ]; then
        skip "there is no $1: run make dist"
    elif ! find_emulator "$2"; then
        skip "there is no emulator for programs of $2: install qemu-user-static, or set QEMU"
    else
        return
    fi
    summary
    exit
}

# make_launcher FILE PROGRAM - makes FILE a command that runs PROGRAM by the emulator
make_launcher()
{
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$emulator" "$2" >"$1"
    chmod +x "$1"
}
