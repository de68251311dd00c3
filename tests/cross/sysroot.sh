#!/bin/sh
# sysroot.sh ARCH DIR - unpacks the C library and the libraries that ckpt needs, for the Debian architecture ARCH, to
# DIR/sysroot. The file `complete` there records that this is done.
set -u
arch=$1 dir=$2
[ -e "$dir/sysroot/complete" ] && exit 0
. tests/cross/apt.sh
rm -rf "$dir/sysroot"
mkdir -p "$dir/sysroot"
apt_begin "$dir/apt" "$arch" || exit 1
apt-get -q -y --download-only install libc6-dev libzip-dev zlib1g-dev libcjson-dev libssl-dev libxxhash-dev \
    libcunit1-dev libarchive-dev || exit 1
for package in "$dir"/apt/archives/*.deb; do
    dpkg -x "$package" "$dir/sysroot" || exit 1
done
rm -rf "$dir/apt"
# Absolute symbolic links refer to the root folder of that architecture, which is the sysroot here.
find "$dir/sysroot" -type l | while read -r link; do
    to=$(readlink "$link")
    case $to in
    /*) ln -sfnr "$dir/sysroot$to" "$link" ;;
    esac
done
: >"$dir/sysroot/complete"
