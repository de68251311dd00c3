#!/bin/sh
# dist/deb.sh - checks the packages that `make deb` has made: lintian reports nothing, a second build has the same
# bytes, and in a new root of this machine's Debian they install, work, compile a program and leave nothing. The root
# needs debootstrap, root and a network: without them, that is skipped.
set -u
B=${B:-build} part=deb
. tests/check.sh
deb=$B/deb
case $deb in /*) ;; *) deb=$PWD/$deb ;; esac
[ -s "$deb"/ckpt_*.deb ] || {
    skip "there is no package in $deb: run make deb"
    summary
    exit
}

# ------------------------------------------------------------------ contents

lint() { lintian -EI --pedantic --allow-root "$@" >"$tmp/lintian" 2>&1; }
is_silent() { lint "$deb"/*.changes && ! grep . "$tmp/lintian" || { cat "$tmp/lintian"; return 1; }; }
# speaks - succeeds if lintian reports a package without a copyright
speaks()
{
    dpkg-deb -R "$deb"/ckpt_*.deb "$tmp/broken" && rm "$tmp/broken/usr/share/doc/ckpt/copyright" &&
        dpkg-deb --root-owner-group -b "$tmp/broken" "$tmp/broken.deb" && ! lint "$tmp/broken.deb" &&
        grep no-copyright-file "$tmp/lintian"
}
if command -v lintian >/dev/null 2>&1; then
    check 'lintian reports nothing' is_silent
    check 'lintian reports a broken package' speaks
else
    skip 'there is no lintian'
fi

# has_all PACKAGE PATH… - succeeds if the package has these files, which may be links
has_all()
{
    dpkg-deb -c "$deb/$1"_*.deb | awk '{print $6}' >"$tmp/contents"
    shift
    for path; do grep -qx "./usr/$path" "$tmp/contents" || { echo "there is no $path"; return 1; }; done
}
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
check 'the command, manual, completions, rules, schemas are where Debian has them' has_all ckpt bin/ckpt \
    share/man/man1/ckpt.1.gz share/man/man5/ckpt-rules.5.gz share/man/man7/ckpt-formats.7.gz \
    share/bash-completion/completions/ckpt share/zsh/vendor-completions/_ckpt \
    share/fish/vendor_completions.d/ckpt.fish share/doc/ckpt/copyright \
    share/ckpt/rules/gpt2-conv1d-to-linear.rules share/ckpt/schema/ckpt.ls.v1.json
check 'the library' has_all libckpt0 "lib/$triplet/libckpt.so.0" "lib/$triplet/libckpt.so.0.[0-9.]*" \
    share/doc/libckpt0/copyright
check 'what programs are built with' has_all libckpt-dev include/ckpt.h "lib/$triplet/libckpt.a" \
    "lib/$triplet/libckpt.so" "lib/$triplet/pkgconfig/libckpt.pc" share/man/man3/libckpt.3.gz \
    share/doc/libckpt-dev/examples/list.c
# names_loaded PACKAGE - succeeds if the package depends on the libraries that it cannot do without, and names others
names_loaded()
{
    dpkg-deb -f "$deb/$1"_*.deb Depends | grep 'libzip.*libssl' &&
        dpkg-deb -f "$deb/$1"_*.deb Recommends | grep libarchive &&
        dpkg-deb -f "$deb/$1"_*.deb Suggests | grep 'liblapack.*libcurl\|libcurl.*liblapack'
}
check 'the command names the libraries that it loads' names_loaded ckpt
check 'so does the library' names_loaded libckpt0
has_static() { ! dpkg-deb -f "$deb"/ckpt_*.deb Depends | grep libckpt; }
check 'the command does not need the library' has_static

build_again()
{
    epoch=$(sed -n 's/^ SOURCE_DATE_EPOCH="\(.*\)"/\1/p' "$deb"/*.buildinfo)
    B=$tmp/again SOURCE_DATE_EPOCH=$epoch sh packaging/deb.sh &&
        for file in "$deb"/*.deb; do cmp "$file" "$tmp/again/deb/${file##*/}" || return 1; done
}
check 'a second build has the same bytes' build_again

# -------------------------------------------------------------------- a root

root=$tmp/root
# in_root COMMAND… - runs COMMAND in the root, with nothing of this environment but a proxy
in_root()
{
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} chroot "$root" "$@"
}
# make_root - makes a minimal root with the sources of apt that this machine has
make_root()
{
    debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" &&
        rm -f "$root/etc/apt/sources.list" && cp -R /etc/apt/. "$root/etc/apt" && cp /etc/resolv.conf "$root/etc" &&
        rm -f "$root"/etc/apt/apt.conf.d/*docker* "$root"/etc/apt/apt.conf.d/*packagekit* \
            "$root"/etc/apt/apt.conf.d/*appstream* &&
        in_root apt-get -q update
}
runs()
{
    in_root sh -ec 'cd /srv && ckpt ls train.pt && ckpt convert train.pt --root state_dict train.safetensors &&
        ckpt verify train.pt && ckpt hash train.safetensors'
}
compiles()
{
    in_root apt-get -q install -y --no-install-recommends gcc libc6-dev pkg-config && in_root sh -ec 'cd /srv
        gcc -o list /usr/share/doc/libckpt-dev/examples/list.c $(pkg-config --cflags --libs libckpt)
        ./list train.pt && ldd list | grep libckpt.so.0'
}
leaves_nothing()
{
    in_root dpkg -L ckpt libckpt0 libckpt-dev | sort -u >"$tmp/installed"
    in_root apt-get -q purge -y ckpt libckpt0 libckpt-dev || return
    while read -r path; do
        [ -d "$root$path" ] || [ ! -e "$root$path" ] || { echo "$path is left"; return 1; }
    done <"$tmp/installed"
    ! find "$root/usr" "$root/etc" "$root/var/lib" -name '*ckpt*' | grep . && ! in_root dpkg -s ckpt
}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null 2>&1; then
    skip 'a new root: needs debootstrap and root'
elif ! make_root >"$tmp/root.log" 2>&1; then
    tail -n 3 "$tmp/root.log"
    skip 'a new root: debootstrap or apt-get update failed; is there a network?'
else
    cp "$deb"/*.deb tests/data/examples/train.pt "$root/srv"
    check 'apt-get installs them' in_root sh -c 'apt-get -q install -y --no-install-recommends /srv/*.deb'
    check 'the command works' runs
    check 'a program compiles by pkg-config and runs' compiles
    check 'purge leaves nothing' leaves_nothing
fi
summary
