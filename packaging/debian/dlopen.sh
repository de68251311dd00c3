#!/bin/sh
# dlopen.sh FILE - prints, as variables for debian/control, the packages of the libraries that FILE loads when it needs
# them. Its notes name them: https://uapi-group.org/specifications/specs/elf_dlopen_metadata
set -eu
notes=$(readelf -p .note.dlopen "$1" | sed -n 's/.*"soname":\["\([^"]*\)"\],"priority":"\([a-z]*\)".*/\2 \1/p')
[ -n "$notes" ] || { echo "dlopen.sh: no notes in $1" >&2; exit 1; }
for field in required=Depends recommended=Recommends suggested=Suggests; do
    list=
    for soname in $(echo "$notes" | sed -n "s/^${field%=*} //p"); do
        owner=$(dpkg-query -S "*/$soname" | sed 's/:.*//' | head -n 1)
        [ -n "$owner" ] || { echo "dlopen.sh: no installed package has $soname" >&2; exit 1; }
        list="$list${list:+, }$owner"
    done
    echo "dlopen:${field#*=}=$list"
done
