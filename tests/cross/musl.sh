#!/bin/sh
# musl.sh DIR - builds the libraries that ckpt needs for musl, from the sources of this Debian release, and installs
# them in DIR/sysroot. The file `complete` there records that this is done.
set -u
dir=$1 root=$1/sysroot
[ -e "$root/complete" ] && exit 0
. tests/cross/apt.sh
rm -rf "$dir/src" "$root"
mkdir -p "$dir/src" "$root/include" "$root/lib"
apt_begin "$dir/apt" amd64 || exit 1
cd "$dir/src" || exit 1
apt-get -q --download-only source zlib libzip cjson openssl cunit xxhash \
    bzip2 xz-utils lz4 libzstd libarchive || exit 1
rm -rf "$dir/apt"
# The headers of the kernel are those of this machine, because they do not depend on the C library.
for name in linux asm-generic; do ln -s "/usr/include/$name" "$root/include/$name"; done
ln -s "/usr/include/$(cc -print-multiarch)/asm" "$root/include/asm"

# unpack NAME - unpacks the upstream sources of NAME to the folder NAME
unpack()
{
    mkdir "$1" && for archive in "$1"_*.orig.tar.*; do
        case $archive in
        *.asc) ;;
        *) tar -xf "$archive" -C "$1" --strip-components=1 ;;
        esac
    done
}
jobs=-j$(nproc)
export CC=musl-gcc CFLAGS="-O2 -fPIC -I$root/include" LDFLAGS="-L$root/lib"

unpack zlib && (cd zlib && ./configure --static --prefix="$root" && make "$jobs" libz.a && cp libz.a "$root/lib" &&
    cp zlib.h zconf.h "$root/include") || exit 1

# build_by_cmake NAME OPTION… - builds NAME and installs it
build_by_cmake()
{
    name=$1
    shift
    unpack "$name" && cmake -S "$name" -B "$name/out" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$root" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_FIND_ROOT_PATH="$root" -DZLIB_LIBRARY="$root/lib/libz.a" \
        -DZLIB_INCLUDE_DIR="$root/include" -DBUILD_SHARED_LIBS=OFF "$@" && make "$jobs" -C "$name/out" install
}

# disable NAME… - prints the options of cmake that disable NAME
disable() { printf -- '-DENABLE_%s=OFF ' "$@"; }

# shellcheck disable=SC2086
unpack bzip2 && (cd bzip2 && $CC $CFLAGS -c blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c \
    bzlib.c && ar rcs "$root/lib/libbz2.a" ./*.o && cp bzlib.h "$root/include") || exit 1
# shellcheck disable=SC2046
build_by_cmake libzip $(disable COMMONCRYPTO GNUTLS MBEDTLS OPENSSL WINDOWS_CRYPTO LZMA) -DBUILD_TOOLS=OFF \
    -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF || exit 1
# The decompressors that libarchive uses are linked into it.
unpack lz4 && make "$jobs" -C lz4/lib liblz4.a && cp lz4/lib/liblz4.a "$root/lib" &&
    cp lz4/lib/lz4*.h "$root/include" || exit 1
unpack libzstd && make "$jobs" -C libzstd/lib libzstd.a && cp libzstd/lib/libzstd.a "$root/lib" &&
    cp libzstd/lib/*.h "$root/include" || exit 1
build_by_cmake xz-utils || exit 1
# shellcheck disable=SC2046
build_by_cmake libarchive $(disable OPENSSL MBEDTLS NETTLE LIBB2 LIBXML2 EXPAT PCREPOSIX CNG ACL XATTR ICONV TAR CPIO \
    CAT TEST) || exit 1
# shellcheck disable=SC2086
unpack cjson && $CC $CFLAGS -c cjson/cJSON.c -o cjson/cJSON.o && ar rcs "$root/lib/libcjson.a" cjson/cJSON.o &&
    mkdir "$root/include/cjson" && cp cjson/cJSON.h "$root/include/cjson" || exit 1
unpack xxhash && cp xxhash/xxhash.h "$root/include" || exit 1
# shellcheck disable=SC2086
unpack cunit && mkdir "$root/include/CUnit" && cp $(find cunit -name '[A-Z]*.h' -path '*Headers*') \
    "$root/include/CUnit" && (cd cunit/CUnit/Sources && for c in Framework/*.c Basic/*.c; do
        $CC $CFLAGS -I"$root/include/CUnit" -DVERSION='"2"' -c "$c" || exit 1
    done && ar rcs "$root/lib/libcunit.a" ./*.o) || exit 1
unpack openssl && (cd openssl && ./Configure linux-generic64 no-shared no-dso no-engine no-async no-tests no-module \
    no-legacy no-secure-memory no-afalgeng no-sock no-ui-console no-ssl no-tls no-dtls no-cms no-ct no-ocsp no-ts \
    no-srp no-ec no-dh no-dsa no-aria no-bf no-camellia no-cast no-chacha no-des no-idea no-md4 no-rc2 no-rc4 no-seed \
    no-siphash no-sm2 no-sm3 no-sm4 no-whirlpool no-blake2 no-scrypt no-rmd160 no-poly1305 no-cmac no-ocb \
    $CFLAGS && make "$jobs" build_generated libcrypto.a && cp libcrypto.a "$root/lib" &&
    cp -RL include/openssl "$root/include") || exit 1
# Shared libraries, because internal names in the static ones clash with names that ckpt's unit tests link.
for name in z zip crypto; do
    libraries=
    [ $name != zip ] || libraries='-lz -lbz2'
    # shellcheck disable=SC2086
    musl-gcc -shared -o "$root/lib/lib$name.so" -Wl,-soname,lib$name.so -Wl,--whole-archive "$root/lib/lib$name.a" \
        -Wl,--no-whole-archive -L"$root/lib" $libraries && rm "$root/lib/lib$name.a" || exit 1
done
cd .. && rm -rf src
: >"$root/complete"
