# zig.sh - sourced, after fetch.sh: unpacks zig, and makes its compiler the command ckpt-cc.

# use_zig TARGET ROOT - makes ckpt-cc compile for TARGET, with the libraries in ROOT
use_zig()
{
    wheel=$(ls "$SOURCES"/ziglang-*.whl)
    [ -e "$B/dist/zig/${wheel##*/}" ] || {
        rm -rf "$B/dist/zig"
        mkdir -p "$B/dist/zig"
        python3 -m zipfile -e "$wheel" "$B/dist/zig"
        chmod +x "$B/dist/zig/ziglang/zig"
        : >"$B/dist/zig/${wheel##*/}"
    }
    CKPT_ZIG=$PWD/$B/dist/zig/ziglang/zig CKPT_TARGET=$1 CKPT_ROOT=$2
    ZIG_GLOBAL_CACHE_DIR=$PWD/$B/dist/zig-cache ZIG_LOCAL_CACHE_DIR=$PWD/$B/dist/zig-cache
    PATH=$PWD/packaging/tools:$PATH
    export CKPT_ZIG CKPT_TARGET CKPT_ROOT ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR PATH
}

# build_libraries ROOT - builds the libraries in ROOT, unless what they are made by is what it was
build_libraries()
{
    made_by=$(cat packaging/sources.txt packaging/libraries.sh packaging/sha256.c packaging/tools/* | sha256sum)
    [ "$(cat "$1/made-by" 2>/dev/null)" != "$made_by" ] || return 0
    sh packaging/libraries.sh "$SOURCES" "$1"
    echo "$made_by" >"$1/made-by"
}

# build_ckpt ARCH OUT GOAL LDFLAG… - builds GOAL in OUT by the Makefile, with all libraries linked. It looks for the
# certificates of servers where Debian and Alpine, Fedora and RHEL, openSUSE, and OpenSSL have them.
build_ckpt()
{
    arch=$1 out=$2 goal=$3
    shift 3
    objcopy=objcopy
    [ "$arch" = "$(uname -m)" ] || objcopy=$arch-linux-gnu-objcopy
    command -v "$objcopy" >/dev/null || { echo "ckpt: there is no command $objcopy" >&2; exit 1; }
    certificates='/etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt'
    certificates="$certificates /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem"
    "${MAKE:-make}" --no-print-directory -j"${JOBS:-$(nproc)}" B="$out" CC=ckpt-cc AR=ckpt-ar OBJCOPY="$objcopy" \
        LINK_MAP="$out/ckpt.map" ON_DEMAND= RELR= LIBCURL=yes LIBARCHIVE=linked CA_FILES="$certificates" \
        CFLAGS='-O2 -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables' \
        LDFLAGS="$* -s -Wl,--gc-sections -lmbedtls -lbz2 -llzma -lzstd -llz4" "$out/$goal"
}
