#!/bin/sh
# sysroot.sh ARCH DIR - unpacks the C library and the libraries that ckpt needs, for the Debian architecture ARCH, to
# DIR/sysroot. It runs once: DIR/sysroot/complete records that.
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
# Makes absolute symbolic links relative, because they are meant relative to the sysroot.
find "$dir/sysroot" -type l | while read -r link; do
    to=$(readlink "$link")
    case $to in
    /*) ln -sfnr "$dir/sysroot$to" "$link" ;;
    esac
done
: >"$dir/sysroot/complete"
