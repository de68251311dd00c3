#!/bin/sh
# archives.sh ARCH… - writes what is published to B/dist/release: for each ARCH an archive with its static program and an
# SPDX bill of materials, the sources with and without tests/corpus, the wheels of wheel.sh, and the sums. Two runs with
# one SOURCE_DATE_EPOCH (default: the time of the last commit) write the same bytes.
set -eu
B=${B:-build}
SOURCES=${SOURCES:-$PWD/$B/dist/sources}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC0
release=$B/dist/release
umask 022
rm -rf "$release"
mkdir -p "$release"

# pack NAME TAR-OPTION… - writes release/NAME.tar.xz, in which neither the user nor the time is seen
pack()
{
    name=$1
    shift
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar --mode=u+rwX,go+rX,go-w \
        -cf - "$@" | xz -T1 >"$release/$name.tar.xz"
}

# copy MODE DIR FILE… - copies FILES to DIR
copy()
{
    mode=$1 to=$2
    shift 2
    mkdir -p "$to"
    for file; do install -m "$mode" "$file" "$to"; done
}

# make_tree ARCH DIR - makes what the archive of ARCH has in it
make_tree()
{
    share=$2/share
    copy 755 "$2/bin" "$B/dist/$1/out/ckpt"
    for page in man/*.[157]; do copy 644 "$share/man/man${page##*.}" "$page"; done
    rm -f "$share/man/man1/ckpt-mpi.1" # which is built with the MPI of a cluster
    copy 644 "$share/ckpt/rules" share/ckpt/rules/*.rules
    copy 644 "$share/ckpt/schema" man/schema/*.json
    mkdir -p "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d" \
        "$share/modulefiles/ckpt"
    cp completion/ckpt.bash "$share/bash-completion/completions/ckpt"
    cp completion/ckpt.zsh "$share/zsh/site-functions/_ckpt"
    cp completion/ckpt.fish "$share/fish/vendor_completions.d/ckpt.fish"
    cp packaging/modulefile "$share/modulefiles/ckpt/$VERSION"
    copy 644 "$share/doc/ckpt" LICENSE README.md CHANGELOG.md
    sh packaging/licences.sh "$SOURCES" "$share/doc/ckpt/licences"
    python3 packaging/sbom.py "$VERSION" "$1" >"$share/doc/ckpt/sbom.spdx.json"
    cp "$share/doc/ckpt/sbom.spdx.json" "$release/ckpt-$VERSION-linux-$1.spdx.json"
}

for arch; do
    name=ckpt-$VERSION-linux-$arch
    printf '  %-5s %s\n' TAR "$name.tar.xz"
    tree=$B/dist/$arch/tree
    rm -rf "$tree"
    make_tree "$arch" "$tree/$name"
    pack "$name" -C "$tree" "$name"
done

# The sources are the files of the last commit.
if git rev-parse --verify -q HEAD >/dev/null 2>&1; then
    printf '  %-5s %s\n' TAR "ckpt-$VERSION-source.tar.xz"
    tree=$B/dist/source
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive --prefix="ckpt-$VERSION/" HEAD | tar -xf - -C "$tree"
    pack "ckpt-$VERSION-source" -C "$tree" --exclude="ckpt-$VERSION/tests/corpus" "ckpt-$VERSION"
    pack "ckpt-$VERSION-source-with-corpus" -C "$tree" "ckpt-$VERSION"
    rm -rf "$tree"
else
    echo 'ckpt: no archive of the sources is made, because this is no clone of the repository' >&2
fi
for file in "$B"/dist/wheels/*; do [ ! -f "$file" ] || cp "$file" "$release"; done
(cd "$release" && sha256sum -- *.* >SHA256SUMS)
