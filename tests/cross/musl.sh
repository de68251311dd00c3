#!/bin/sh
# musl.sh DIR - the libraries that ckpt needs, built against musl from the sources of this Debian release: DIR/root has
# their headers and archives. Done once: a file `complete` there says so.
set -u
dir=$1 root=$1/root
[ -e "$root/complete" ] && exit 0
. tests/cross/apt.sh
rm -rf "$dir/src" "$root"
mkdir -p "$dir/src" "$root/include" "$root/lib"
apt_begin "$dir/apt" amd64 || exit 1
cd "$dir/src" || exit 1
apt-get -q --download-only source zlib libzip cjson openssl cunit xxhash || exit 1
rm -rf "$dir/apt"
# The kernel's headers are the same for every C library.
for name in linux asm-generic; do ln -s "/usr/include/$name" "$root/include/$name"; done
ln -s "/usr/include/$(cc -print-multiarch)/asm" "$root/include/asm"

# unpack NAME - its original sources, in the folder NAME
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
unpack libzip && cmake -S libzip -B libzip/out -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$root" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_FIND_ROOT_PATH="$root" -DZLIB_LIBRARY="$root/lib/libz.a" \
    -DZLIB_INCLUDE_DIR="$root/include" -DBUILD_SHARED_LIBS=OFF -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF \
    -DENABLE_MBEDTLS=OFF -DENABLE_OPENSSL=OFF -DENABLE_WINDOWS_CRYPTO=OFF -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF \
    -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF &&
    make "$jobs" -C libzip/out install || exit 1
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
# Shared, as distributions have them: our unit tests link internal names that these archives bear as well.
for name in z zip crypto; do
    musl-gcc -shared -o "$root/lib/lib$name.so" -Wl,-soname,lib$name.so -Wl,--whole-archive "$root/lib/lib$name.a" \
        -Wl,--no-whole-archive -L"$root/lib" $([ $name != zip ] || echo -lz) && rm "$root/lib/lib$name.a" || exit 1
done
cd .. && rm -rf src
: >"$root/complete"
