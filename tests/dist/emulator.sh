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

# make_launcher FILE PROGRAM - makes FILE a command that runs PROGRAM by the emulator
make_launcher()
{
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$emulator" "$2" >"$1"
    chmod +x "$1"
}
