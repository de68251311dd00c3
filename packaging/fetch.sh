#!/bin/sh
# fetch.sh DIR - fetches what sources.txt lists to DIR, by the clients of the registries (pip, cargo, apt-get), and
# checks each sum before anything is unpacked. What is in DIR with the right sum is not fetched again, so that a copy
# of DIR serves a machine without a network.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
list=$here/sources.txt
mkdir -p "$1"
cd "$1"
top=$PWD

die()
{
    echo "ckpt: $1" >&2
    [ -z "${2-}" ] || echo "hint: $2" >&2
    exit 1
}

# of_registry REGISTRY - prints package, version of the package and sum of each source of REGISTRY
of_registry() { awk -v registry="$1" '$3 ~ "^(" registry ")$" {split($4, part, "="); print part[1], part[2], $6}' "$list"; }

# has_sum FILE SUM - succeeds if FILE has the sum SUM
has_sum() { [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d ' ' -f 1)" = "$2" ]; }

# keep FOUND FILE SUM - moves FOUND to FILE, or fails if its sum is not SUM
keep()
{
    [ -f "$1" ] || die "${1##*/} was not fetched" "see $top/log"
    has_sum "$1" "$3" || die "the SHA-256 of ${1##*/} is $(sha256sum <"$1" | cut -d ' ' -f 1), but sources.txt has $3" \
        "fetch it again; if it is the registry that changed, compare the sources before changing sources.txt"
    mv "$1" "$2"
}

# A package, of pip's, is named by what pip downloads.
of_registry pypi | while read -r package version sum; do
    has_sum "$package-$version.whl" "$sum" && continue
    rm -rf tmp && mkdir tmp
    pip download --quiet --no-deps --only-binary :all: --dest tmp "$package==$version" >log 2>&1 ||
        die "pip cannot download $package $version" "see $top/log"
    keep "$(echo tmp/*.whl)" "$package-$version.whl" "$sum"
done

# cargo fetches the crates that a package depends on. All are fetched at once.
need=$(of_registry crates | while read -r package version sum; do
    has_sum "$package-$version.crate" "$sum" || echo "$package = \"=$version\""
done)
if [ "$need" ]; then
    command -v cargo >/dev/null || die "there is no command cargo, which fetches sources" "on Debian: apt install cargo"
    rm -rf tmp && mkdir -p tmp/src && : >tmp/src/lib.rs
    printf '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2018"\n[workspace]\n[dependencies]\n%s\n' "$need" \
        >tmp/Cargo.toml
    (cd tmp && CARGO_HOME=$PWD/home cargo fetch --target x86_64-unknown-linux-gnu >../log 2>&1) ||
        die "cargo cannot fetch sources" "see $top/log"
    of_registry crates | while read -r package version sum; do
        has_sum "$package-$version.crate" "$sum" && continue
        keep "$(echo tmp/home/registry/cache/*/"$package-$version"[.+]*crate)" "$package-$version.crate" "$sum"
    done
fi

# A .dsc has the sums of the files of its package, in lines with three fields.
parts() { sed -n '/^Checksums-Sha256/,/^[^ ]*:$/s/^ \([0-9a-f]*\) [0-9]* \(.*\)/\1  \2/p' "$1"; }
has_package() { has_sum "$1" "$2" && parts "$1" | sha256sum --check --status 2>/dev/null; }

need=$(of_registry 'bookworm|trixie' | while read -r package version sum; do
    has_package "${package}_$version.dsc" "$sum" || echo "$package=$version"
done)
if [ "$need" ]; then
    command -v apt-get >/dev/null || die "there is no command apt-get, which fetches sources" \
        "copy the folder of sources from a machine with Debian"
    rm -rf tmp && mkdir tmp
    . "$here/../tests/cross/apt.sh"
    # The package sources of this machine, but of both releases
    (apt_begin "$top/tmp/apt" amd64) >log 2>&1 || die 'apt-get cannot read its lists' "see $top/log"
    for release in bookworm trixie; do
        sed -n "s/^\(deb-src .*\) [a-z]* \([a-z ]*\)$/\1 $release \2/p" tmp/apt/sources.list
    done | sort -u >tmp/both && mv tmp/both tmp/apt/sources.list
    export APT_CONFIG="$top/tmp/apt/apt.conf"
    apt-get -qq update >log 2>&1 || die 'apt-get cannot read its lists' "see $top/log"
    # shellcheck disable=SC2086
    (cd tmp && apt-get -q --download-only source $need) >log 2>&1 || die "apt-get cannot fetch $need" "see $top/log"
    of_registry 'bookworm|trixie' | while read -r package version sum; do
        dsc=${package}_$version.dsc
        has_package "$dsc" "$sum" && continue
        keep "tmp/$dsc" "$dsc" "$sum"
        parts "$dsc" | while read -r part_sum part; do keep "tmp/$part" "$part" "$part_sum"; done
    done
fi
rm -rf tmp log
