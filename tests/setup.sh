#!/bin/sh
# setup.sh [setup|check|cross|oracle] - installs, by the system's package manager, what this make target lacks, or
# prints what to install. Prints nothing if nothing is missing.
set -u

what=${1:-setup}
missing= wanted=  # words of the table below that are not installed: those that are required, those that are optional

# WORD, and its packages for apt, dnf, apk, pacman, brew; "-": there is none
table='
cc        gcc         gcc             gcc            gcc            gcc
c++       g++         gcc-c++         g++            gcc            gcc
libc      libc6-dev   glibc-devel     musl-dev       glibc          -
objcopy   binutils    binutils        binutils       binutils       binutils
make      make        make            make           make           make
zip       libzip-dev  libzip-devel    libzip-dev     libzip         libzip
zlib      zlib1g-dev  zlib-devel      zlib-dev       zlib           zlib
cjson     libcjson-dev cjson-devel    cjson-dev      cjson          cjson
crypto    libssl-dev  openssl-devel   openssl-dev    openssl        openssl
xxhash    libxxhash-dev xxhash-devel  xxhash-dev     xxhash         xxhash
cunit     libcunit1-dev CUnit-devel   cunit-dev      cunit          cunit
archive   libarchive-dev libarchive-devel libarchive-dev libarchive  libarchive
curl      libcurl4-openssl-dev libcurl-devel curl-dev  curl           curl
authorities ca-certificates ca-certificates ca-certificates ca-certificates ca-certificates
mpi       libopenmpi-dev,openmpi-bin openmpi-devel openmpi-dev,openmpi openmpi openmpi
nginx     nginx-light nginx           nginx          nginx          nginx
openssl   openssl     openssl         openssl        openssl        openssl
slurm     slurm-wlm,munge slurm-slurmctld,slurm-slurmd,munge - - -
parallel  parallel    parallel        parallel       parallel       parallel
pc        pkg-config  pkgconf         pkgconf        pkgconf        pkgconf
git       git         git             git            git            git
lfs       git-lfs     git-lfs         git-lfs        git-lfs        git-lfs
abigail   abigail-tools libabigail    -              -              -
zipper    zip,unzip   zip,unzip       zip,unzip      zip,unzip      zip
packers   xz-utils,bzip2 xz,bzip2     xz,bzip2       xz,bzip2       xz
strace    strace      strace          strace         strace         -
clang     clang,libclang-rt-dev clang clang            clang          llvm
mandoc    mandoc      mandoc          mandoc         mandoc         mandoc
i386      gcc-i686-linux-gnu,libc6-dev-i386-cross    - - - -
s390x     gcc-s390x-linux-gnu,libc6-dev-s390x-cross  - - - -
arm64     gcc-aarch64-linux-gnu,libc6-dev-arm64-cross - - - -
musl      musl-tools  musl-gcc        -              musl           -
cmake     cmake       cmake           -              cmake          -
qemu      qemu-user-static qemu-user-static -        qemu-user-static -
lapack    liblapack3  lapack          lapack         lapack         lapack
numpy     python3-numpy python3-numpy   py3-numpy      python-numpy   numpy
venv      python3-venv python3        python3        python         python
'

# The compiler, which may have arguments, as in CC="ccache gcc"
CC=${CC:-cc}

# command_needed NAME WORD - adds WORD to $missing if there is no command NAME
command_needed() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }

# header_needed HEADER WORD - adds WORD to $missing if the compiler does not find HEADER. If there is no compiler, looks
# for HEADER in the usual folders
header_needed()
{
    if command -v "${CC%% *}" >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        printf '#include <%s>\n' "$1" | $CC -E -x c - >/dev/null 2>&1 || missing="$missing $2"
    elif ! ls "/usr/include/$1" /usr/include/*/"$1" >/dev/null 2>&1; then
        missing="$missing $2"
    fi
}

# header_wanted HEADER WORD - as header_needed, for an optional header
header_wanted()
{
    required=$missing missing=
    header_needed "$@"
    wanted=$wanted$missing missing=$required
}

# has_authorities - succeeds if the system has a list of certificate authorities, without which libcurl refuses https
has_authorities()
{
    for list in ssl/certs/ca-certificates.crt pki/tls/certs/ca-bundle.crt ssl/ca-bundle.pem ssl/cert.pem; do
        [ ! -s "/etc/$list" ] || return 0
    done
    return 1
}

# command_wanted NAME WORD - as command_needed, for a command without which its part is skipped
command_wanted() { command -v "$1" >/dev/null 2>&1 || wanted="$wanted $2"; }

# library_wanted SONAME WORD - as command_wanted, for a library that ckpt loads when it needs it
library_wanted()
{
    for folder in /lib /lib64 /usr/lib /usr/lib64 /usr/local/lib /lib/*-linux-gnu* /usr/lib/*-linux-gnu*; do
        [ ! -e "$folder/$1" ] || return 0
    done
    wanted="$wanted $2"
}

# find_missing - sets $missing and $wanted
find_missing()
{
    missing= wanted=
    if [ "$what" = oracle ]; then
        python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || missing=venv
        return
    fi
    if [ "$what" = cross ]; then # all are optional: cross/run.sh skips a target that lacks something
        command_needed i686-linux-gnu-gcc i386
        command_needed s390x-linux-gnu-gcc s390x
        command_needed aarch64-linux-gnu-gcc arm64
        command_needed musl-gcc musl
        command_needed cmake cmake
        command_needed qemu-s390x-static qemu
        wanted=$missing missing=
        return
    fi
    command_needed "${CC%% *}" cc
    command_needed objcopy objcopy
    command_needed make make
    header_needed stdio.h libc
    header_needed zip.h zip
    header_needed zlib.h zlib
    header_needed cjson/cJSON.h cjson
    header_needed openssl/evp.h crypto
    header_needed xxhash.h xxhash
    header_wanted archive.h archive
    header_wanted curl/curl.h curl
    has_authorities || wanted="$wanted authorities"
    [ "$what" = check ] || return 0
    header_needed CUnit/Basic.h cunit
    command_needed c++ c++
    command_needed pkg-config pc
    command_needed git git
    command_needed mandoc mandoc
    command_wanted git-lfs lfs
    command_wanted abidiff abigail
    command_wanted openssl openssl
    command_wanted mpicc mpi
    command_wanted mpirun mpi
    [ -x /usr/sbin/nginx ] || command_wanted nginx nginx
    [ -x /usr/sbin/slurmctld ] || command_wanted slurmctld slurm
    command_wanted parallel parallel
    command_wanted zip zipper
    command_wanted unzip zipper
    command_wanted xz packers
    command_wanted bzip2 packers
    command_wanted strace strace
    library_wanted liblapack.so.3 lapack
    python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null || wanted="$wanted numpy"
    echo 'int main(void) { return 0; }' | clang -fsanitize=address -o /dev/null -x c - 2>/dev/null ||
        wanted="$wanted clang"
}

# packages COLUMN - prints the packages of $missing and $wanted by their names in COLUMN, for one package manager
packages()
{
    for word in $missing $wanted; do
        printf '%s\n' "$table" | awk -v w="$word" -v c="$1" '$1 == w && $c != "-" {gsub(",", " ", $c); print $c}'
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}

# hint_and_exit HINT - exits with 0 if only optional packages are missing; else prints what is missing and HINT, and
# exits with 1
hint_and_exit()
{
    [ -n "$missing" ] || exit 0
    echo "ckpt: missing:$missing" >&2
    echo "hint: $1" >&2
    exit 1
}

find_missing
[ -z "$missing$wanted" ] && exit 0

if command -v apt-get >/dev/null 2>&1; then
    names=$(packages 2)
    if [ "$(id -u)" = 0 ]; then
        root=
    elif command -v sudo >/dev/null 2>&1; then
        root=sudo
    else
        hint_and_exit "as root: apt-get install $names"
    fi
    echo "installing $names"
    apt="$root env DEBIAN_FRONTEND=noninteractive apt-get"
    log=$(mktemp)
    # shellcheck disable=SC2086
    if ! { $apt -qq update && $apt -qq install -y --no-install-recommends $names; } >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        hint_and_exit "apt-get could not install them; try: $root apt-get install $names"
    fi
    rm -f "$log"
elif command -v dnf >/dev/null 2>&1; then hint_and_exit "as root: dnf install $(packages 3)"
elif command -v apk >/dev/null 2>&1; then
    # shellcheck disable=SC2046
    [ "$(id -u)" = 0 ] && apk add $(packages 4) || hint_and_exit "as root: apk add $(packages 4)"
elif command -v pacman >/dev/null 2>&1; then hint_and_exit "as root: pacman -S $(packages 5)"
elif command -v brew >/dev/null 2>&1; then hint_and_exit "brew install $(packages 6)"
else hint_and_exit "install, by their Debian names: $(packages 2)"
fi

find_missing
[ -z "$missing" ] || hint_and_exit "still missing after the installation"
