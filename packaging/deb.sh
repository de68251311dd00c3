#!/bin/sh
# deb.sh - builds the packages ckpt, libckpt0 and libckpt-dev for this machine's Debian, in B/deb, from a copy of the
# sources in which packaging/debian is debian. MAINTAINER='NAME <ADDRESS>' is who publishes them (default: DEBFULLNAME
# and DEBEMAIL, then the author of the last commit). Two runs with one SOURCE_DATE_EPOCH (default: the time of the last
# commit) write the same bytes.
set -eu
B=${B:-build}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH LC_ALL=C
unset MAKEFLAGS MFLAGS MAKELEVEL CC CFLAGS CPPFLAGS LDFLAGS || :
if [ -n "${DEBEMAIL:-}" ]; then
    author="${DEBFULLNAME:-ckpt} <$DEBEMAIL>"
else
    author=$(git log -1 --format='%an <%ae>' 2>/dev/null || :)
fi
MAINTAINER=${MAINTAINER:-$author}
for command in dpkg-buildpackage dh; do
    command -v $command >/dev/null || {
        echo "ckpt: there is no command $command" >&2
        echo 'hint: apt-get install dpkg-dev debhelper' >&2
        exit 1
    }
done
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
tree=$tmp/ckpt-$VERSION
umask 022
mkdir -p "$tree/tests/data"
cp -R Makefile lib cli man completion share examples libckpt.pc.in LICENSE README.md CHANGELOG.md "$tree"
cp -R packaging/debian "$tree/debian"
cp tests/demo.sh "$tree/tests"
cp -R tests/data/examples "$tree/tests/data"
# The packages of one release sort before those of the next, and before Debian's own.
package_version=$VERSION-1~$(. /etc/os-release && echo "$ID${VERSION_ID:-}")
date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")
sed "s|@VERSION@|$VERSION|; s|@PACKAGE_VERSION@|$package_version|; s|@MAINTAINER@|$MAINTAINER|; s|@DATE@|$date|" \
    "$tree/debian/changelog.in" >"$tree/debian/changelog"
sed -i "s|@MAINTAINER@|$MAINTAINER|" "$tree/debian/control"
rm "$tree/debian/changelog.in"
(cd "$tree" && unset B && DEB_BUILD_OPTIONS="parallel=${JOBS:-$(nproc)} noautodbgsym" dpkg-buildpackage -b -us -uc)
rm -rf "$B/deb"
mkdir -p "$B/deb"
cp "$tmp"/*.deb "$tmp"/*.changes "$tmp"/*.buildinfo "$B/deb"
