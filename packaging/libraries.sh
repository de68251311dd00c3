#!/bin/sh
# libraries.sh SOURCES ROOT [NAME…] - builds the libraries that the static program has in it, from the archives that fetch.sh put
# in SOURCES, and installs them in ROOT; with NAMES, those alone. CKPT_ZIG and CKPT_TARGET are those of tools/ckpt-cc, which must be in PATH.
# They are built in a temporary folder, because OpenSSL does not build in a folder whose path has a blank.
set -eu
sources=$1 CKPT_ROOT=$2 here=$(cd "$(dirname "$0")" && pwd)
shift 2
export CKPT_ROOT
[ $# -gt 0 ] || {
    rm -rf "$CKPT_ROOT"
    set -- zlib bzip2 xz zstd lz4 cjson xxhash libzip libarchive openssl mbedtls curl
}
mkdir -p "$CKPT_ROOT/include" "$CKPT_ROOT/lib"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
export CC=ckpt-cc AR=ckpt-ar RANLIB=ckpt-ranlib SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}" LC_ALL=C TZ=UTC0
unset CFLAGS CPPFLAGS LDFLAGS MAKEFLAGS MFLAGS MAKELEVEL || :
jobs=${JOBS:-$(nproc)}
processor=${CKPT_TARGET%%-*}
# Each function and each variable has a section, of which the linker keeps those that ckpt uses. The temporary folder leaves
# no trace in objects: cmake compiles in other folders than those of the sources, so that ckpt-cc does not know it.
flags="-fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables"
flags="$flags -fstack-protector-strong -fstack-clash-protection -ffile-prefix-map=$work=/build"

# unpack_crate PATTERN FOLDER NAME - unpacks FOLDER of the crate that PATTERN matches to NAME
unpack_crate()
{
    mkdir "$work/crate" && tar -xf "$sources"/$1 -C "$work/crate" --strip-components=1
    mv "$work/crate/$2" "$work/$3" && rm -rf "$work/crate"
}

# unpack_debian NAME - unpacks the Debian source package NAME, with the patches of Debian
unpack_debian() { dpkg-source --no-check -x "$sources/$1"_*.dsc "$work/$1" >/dev/null 2>&1; }

# library NAME OPTIMIZE FOLDER FLAGS FILE… - compiles FILES of FOLDER and puts them into libNAME.a
library()
{
    name=$1 optimize=$2 folder=$3 more=$4
    shift 4
    (cd "$work/$folder" && mkdir -p objects && printf '%s\n' "$@" | CKPT_FLAGS="$optimize $flags $more" xargs -P "$jobs" -n 1 \
        sh -c '$CC $CKPT_FLAGS -c "$1" -o "objects/$(echo "${1%.*}" | tr / _).o"' sh &&
        rm -f "$CKPT_ROOT/lib/lib$name.a" && ckpt-ar rcs "$CKPT_ROOT/lib/lib$name.a" objects/*.o)
}

# by_cmake NAME OPTIMIZE TARGET OPTION… - builds TARGET of NAME, which may be install
by_cmake()
{
    name=$1 optimize=$2 target=$3
    shift 3
    cmake -S "$work/$name" -B "$work/$name/out" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" \
        -DCMAKE_C_COMPILER=ckpt-cc -DCMAKE_AR="$(command -v ckpt-ar)" -DCMAKE_RANLIB="$(command -v ckpt-ranlib)" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$optimize -DNDEBUG $flags" -DCMAKE_INSTALL_PREFIX="$CKPT_ROOT" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_FIND_ROOT_PATH="$CKPT_ROOT" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DCMAKE_TRY_COMPILE_TARGET_TYPE=EXECUTABLE -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_POSITION_INDEPENDENT_CODE=ON "$@"
    make -j"$jobs" -C "$work/$name/out" "$target"
}
off() { printf -- '-D%s=OFF ' "$@"; }
on() { printf -- '-D%s=ON ' "$@"; }

build_zlib()
{
    unpack_crate libz-sys-*.crate src/zlib zlib
    library z -O2 zlib -D_LARGEFILE64_SOURCE=1\ -DHAVE_UNISTD_H adler32.c compress.c crc32.c deflate.c infback.c \
        inffast.c inflate.c inftrees.c trees.c uncompr.c zutil.c
    (cd "$work/zlib" && cp zlib.h zconf.h "$CKPT_ROOT/include")
}

build_bzip2()
{
    unpack_crate bzip2-sys-*.crate bzip2-1.0.8 bzip2
    library bz2 -O2 bzip2 '' blocksort.c bzlib.c compress.c crctable.c decompress.c huffman.c randtable.c
    cp "$work/bzip2/bzlib.h" "$CKPT_ROOT/include"
}

build_xz()
{
    unpack_crate liblzma-sys-*.crate xz xz
    # shellcheck disable=SC2046
    by_cmake xz -O2 install $(off XZ_NLS XZ_DOC XZ_DOXYGEN XZ_TOOL_XZ XZ_TOOL_XZDEC XZ_TOOL_LZMADEC XZ_TOOL_LZMAINFO \
        XZ_TOOL_SCRIPTS XZ_TOOL_SYMLINKS BUILD_TESTING) -DXZ_THREADS=no
}

build_zstd()
{
    unpack_crate zstd-sys-*.crate zstd/lib zstd
    (cd "$work/zstd" && rm -rf legacy deprecated dictBuilder && cp zstd.h zstd_errors.h "$CKPT_ROOT/include")
    # shellcheck disable=SC2046
    library zstd -O3 zstd "-DZSTD_DISABLE_ASM -DZSTD_TRACE=0" $(cd "$work/zstd" && ls common/*.c compress/*.c decompress/*.c)
}

build_lz4()
{
    unpack_crate lz4-sys-*.crate liblz4/lib lz4
    library lz4 -O3 lz4 -DXXH_NAMESPACE=LZ4_ lz4.c lz4frame.c lz4hc.c xxhash.c
    cp "$work/lz4/lz4.h" "$work/lz4/lz4frame.h" "$work/lz4/lz4hc.h" "$CKPT_ROOT/include"
}

build_cjson()
{
    unpack_debian cjson
    library cjson -O2 cjson '' cJSON.c
    mkdir "$CKPT_ROOT/include/cjson" && cp "$work/cjson/cJSON.h" "$CKPT_ROOT/include/cjson"
}

build_xxhash() { unpack_debian xxhash && cp "$work/xxhash/xxhash.h" "$CKPT_ROOT/include"; }

build_libzip()
{
    unpack_debian libzip
    # shellcheck disable=SC2046
    by_cmake libzip -O2 install $(off ENABLE_COMMONCRYPTO ENABLE_GNUTLS ENABLE_MBEDTLS ENABLE_OPENSSL ENABLE_WINDOWS_CRYPTO \
        BUILD_TOOLS BUILD_REGRESS BUILD_EXAMPLES BUILD_DOC HAVE_ARC4RANDOM)
}

build_libarchive()
{
    unpack_debian libarchive
    # shellcheck disable=SC2046
    by_cmake libarchive -Os archive_static $(off ENABLE_OPENSSL ENABLE_MBEDTLS ENABLE_NETTLE ENABLE_LIBB2 ENABLE_LIBXML2 ENABLE_EXPAT \
        ENABLE_PCREPOSIX ENABLE_CNG ENABLE_ACL ENABLE_XATTR ENABLE_ICONV ENABLE_TAR ENABLE_CPIO ENABLE_CAT ENABLE_TEST)
    cp "$work/libarchive/out/libarchive/libarchive.a" "$CKPT_ROOT/lib"
    cp "$work/libarchive/libarchive/archive.h" "$work/libarchive/libarchive/archive_entry.h" "$CKPT_ROOT/include"
}

# Of OpenSSL, SHA-256 alone, because its code is the fastest.
build_openssl()
{
    unpack_crate openssl-src-*.crate openssl openssl
    # shellcheck disable=SC2086
    (cd "$work/openssl" && ./Configure "linux-$processor" --prefix=/usr --openssldir=/etc/ssl --libdir=lib \
        no-shared no-dso no-engine no-async no-tests no-module no-apps no-docs -O2 $flags &&
        make -j"$jobs" build_generated && objects=$(sha256_objects) && make -j"$jobs" $objects &&
        cp "$here/sha256.c" . && ckpt-cc -O2 $flags -Iinclude -c sha256.c -o sha256.o &&
        rm -f "$CKPT_ROOT/lib/libcrypto.a" && ckpt-ar rcs "$CKPT_ROOT/lib/libcrypto.a" sha256.o $objects)
    cp -R "$work/openssl/include/openssl" "$CKPT_ROOT/include"
}

# sha256_objects - prints the objects of OpenSSL that have SHA-256 for the processor
sha256_objects()
{
    case $processor in
    x86_64) more='crypto/sha/libcrypto-lib-sha256-x86_64.o crypto/libcrypto-lib-x86_64cpuid.o' ;;
    aarch64) more='crypto/sha/libcrypto-lib-sha256-armv8.o crypto/libcrypto-lib-armcap.o crypto/libcrypto-lib-arm64cpuid.o' ;;
    esac
    echo "crypto/sha/libcrypto-lib-sha256.o crypto/libcrypto-lib-cpuid.o crypto/libcrypto-lib-ctype.o $more"
}

# With TLS 1.2 and 1.3. Its tables are small, unlike those of OpenSSL, which are relocated at each start. It asks the kernel
# for random bytes with musl, too, not /dev/urandom alone: in a root without that file, curl would crash.
build_mbedtls()
{
    unpack_debian mbedtls
    sed -i 's/defined(__linux__) && defined(__GLIBC__)/defined(__linux__)/' "$work/mbedtls/library/entropy_poll.c"
    printf '#define MBEDTLS_THREADING_C\n#define MBEDTLS_THREADING_PTHREAD\n' >>"$work/mbedtls/include/mbedtls/mbedtls_config.h"
    # shellcheck disable=SC2046
    library mbedtls -O2 mbedtls '-Iinclude -Ilibrary -I3rdparty/everest/include -I3rdparty/p256-m' \
        $(cd "$work/mbedtls" && ls library/*.c)
    cp -R "$work/mbedtls/include/mbedtls" "$work/mbedtls/include/psa" "$CKPT_ROOT/include"
}

# HTTP alone. The program names the file of certificates: no path of one distribution is built in.
build_curl()
{
    unpack_crate curl-sys-*.crate curl curl
    mkdir "$work/curl/docs" && : >"$work/curl/docs/CMakeLists.txt" # which the crate lacks
    # shellcheck disable=SC2046
    by_cmake curl -Os install $(on HTTP_ONLY CURL_USE_MBEDTLS BUILD_STATIC_LIBS ENABLE_THREADED_RESOLVER \
        CURL_DISABLE_ALTSVC CURL_DISABLE_COOKIES CURL_DISABLE_DOH CURL_DISABLE_FORM_API \
        CURL_DISABLE_HSTS CURL_DISABLE_MIME CURL_DISABLE_WEBSOCKETS CURL_DISABLE_SHA512_256 CURL_DISABLE_LIBCURL_OPTION \
        CURL_DISABLE_GETOPTIONS CURL_DISABLE_KERBEROS_AUTH CURL_DISABLE_NEGOTIATE_AUTH) \
        $(off BUILD_CURL_EXE BUILD_TESTING BUILD_EXAMPLES BUILD_LIBCURL_DOCS BUILD_MISC_DOCS ENABLE_CURL_MANUAL CURL_USE_LIBPSL \
        USE_LIBIDN2 USE_NGHTTP2 CURL_BROTLI CURL_ZSTD CURL_ZLIB CURL_USE_LIBSSH2 CURL_USE_LIBSSH CURL_USE_PKGCONFIG \
        CURL_ENABLE_NTLM CURL_ENABLE_SMB CURL_USE_OPENSSL) -DMBEDTLS_INCLUDE_DIR="$CKPT_ROOT/include" \
        -DMBEDTLS_LIBRARY="$CKPT_ROOT/lib/libmbedtls.a" -DMBEDX509_LIBRARY="$CKPT_ROOT/lib/libmbedtls.a" \
        -DMBEDCRYPTO_LIBRARY="$CKPT_ROOT/lib/libmbedtls.a" -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
}

for name; do
    printf '  %-5s %s\n' LIB "$name"
    set +e
    (set -e && "build_$name") >"$work/log" 2>&1
    status=$?
    set -e
    [ $status = 0 ] || { tail -n 40 "$work/log" >&2; echo "ckpt: $name cannot be built" >&2; exit 1; }
done
