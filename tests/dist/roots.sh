#!/bin/sh
# dist/roots.sh [ARCH] - checks that the static program works in systems of which it knows nothing: in an empty root,
# in one that has busybox alone, in Debian as debootstrap makes it, and in the folders that ROOTS names. It must print
# there what build/ckpt prints here, scan in its sandbox, and trust the authorities that the system does.
set -u
B=${B:-build} part=roots
arch=${1:-$(uname -m)}
top=$PWD
ckpt=$top/$B/ckpt static=$top/$B/dist/$arch/out/ckpt
. tests/check.sh
. tests/dist/emulator.sh
. tests/remote/servers.sh
trap 'stop_servers; rm -rf "$tmp"' EXIT
need_program "$static" "$arch"
! [ "$emulator" ] || ! LC_ALL=C readelf -l "$emulator" 2>/dev/null | grep -q INTERP || {
    skip "$emulator is not static, so that it runs in no other root"
    summary
    exit
}
export TZ=UTC0
unset CKPT_OFFLINE http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY || :

# furnish DIR - puts the program and what it reads into the root DIR; clear DIR takes it away
furnish()
{
    mkdir -p "$1/t" && cp "$static" "$1/t/ckpt" && cp -R "$tmp/here/t/data" "$1/t" || return
    [ -z "$emulator" ] || cp "$emulator" "$1/t/emulator"
}
clear() { rm -rf "$1/t"; }

# in_root DIR PROGRAM ARGUMENT… - runs PROGRAM with DIR as the root
in_root()
{
    dir=$1
    shift
    if [ "$(id -u)" = 0 ]; then chroot "$dir" "$@"; else unshare -Ur chroot "$dir" "$@"; fi
}
# static_in DIR ARGUMENT…, dynamic_in DIR ARGUMENT… - run the static program with DIR as the root, build/ckpt in DIR
static_in()
{
    dir=$1
    shift
    in_root "$dir" ${emulator:+/t/emulator} /t/ckpt "$@"
}
dynamic_in() { (cd "$1" && shift && "$ckpt" "$@"); }

# show_all HOW DIR - prints what ckpt, run by HOW in DIR, prints of the files there
show_all()
{
    how=$1 in=$2
    for file in $(cd "$in" && echo t/data/*); do
        for command in ls info verify scan hash; do
            echo "== $command $file"
            "$how" "$in" $command "$file" 2>&1
            echo "exit code $?"
        done
        echo "== convert $file"
        "$how" "$in" convert -q "$file" -o t/made.safetensors 2>&1
        echo "exit code $?"
        [ ! -f "$in/t/made.safetensors" ] || {
            sha256sum <"$in/t/made.safetensors"
            "$how" "$in" diff "$file" t/made.safetensors 2>&1
            echo "exit code $?"
            rm "$in/t/made.safetensors"
        }
    done
}
works_in()
{
    show_all static_in "$1" >"$tmp/static" && diff "$tmp/dynamic" "$tmp/static"
}
# confines DIR - succeeds if the sandbox refuses all that it should
confines()
{
    static_in "$1" scan --sandbox=test - && static_in "$1" scan --sandbox=on t/data/train.pt
}
check_root()
{
    check "$1: the same output" works_in "$2"
    if [ "$emulator" ]; then
        skip "the sandbox in $1: QEMU has no seccomp"
    else
        check "$1: the sandbox of scan" confines "$2"
    fi
}

mkdir -p "$tmp/here/t/data"
cp -R tests/data/examples/train.pt tests/data/examples/gpt2.json tests/data/examples/mesh_2x2 "$tmp/here/t/data"
gzip -nc tests/data/examples/train.pt >"$tmp/here/t/data/train.pt.gz"
printf 'cos\nsystem\n(S"id"\ntR.' >"$tmp/here/t/data/evil.pkl"
head -c 1000 tests/data/examples/train.pt >"$tmp/here/t/data/cut.pt"
show_all dynamic_in "$tmp/here" >"$tmp/dynamic"
can_change_root() { furnish "$tmp/empty" && static_in "$tmp/empty" --version; }
if can_change_root >"$tmp/log" 2>&1; then
    check_root 'an empty root' "$tmp/empty"
else
    skip "no root can be changed here: $(tail -n 1 "$tmp/log")"
    summary
    exit
fi

busybox=$(command -v busybox) && ! LC_ALL=C readelf -l "$busybox" | grep -q INTERP || busybox=
works_in_shell()
{
    in_root "$tmp/busybox" /bin/sh -c "${emulator:+/t/emulator }/t/ckpt ls /t/data/train.pt | grep -c bias" \
        >"$tmp/shell" && [ "$(cat "$tmp/shell")" = "$("$ckpt" ls tests/data/examples/train.pt | grep -c bias)" ]
}
if [ "$busybox" ]; then
    mkdir -p "$tmp/busybox/bin" && cp "$busybox" "$tmp/busybox/bin/busybox"
    for name in sh grep; do ln -s busybox "$tmp/busybox/bin/$name"; done
    furnish "$tmp/busybox"
    check_root 'a root with busybox' "$tmp/busybox"
    check 'a root with busybox: in a pipeline of its shell' works_in_shell
else
    skip 'there is no static busybox'
fi

# make_debian - makes the root of Debian, whose packages are fetched
debian=$top/$B/dist/roots/bookworm
make_debian()
{
    rm -rf "$debian"
    mkdir -p "${debian%/*}"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$debian" ${DEBIAN_MIRROR:-} &&
        : >"$debian.complete"
}
roots=${ROOTS:-}
if [ "$arch" != "$(uname -m)" ]; then
    skip "a Debian of $arch"
elif [ "$(id -u)" != 0 ] || ! PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null; then
    skip 'debootstrap is not installed, or this is not the superuser'
elif [ ! -e "$debian.complete" ] && ! make_debian >"$tmp/log" 2>&1; then
    skip "no Debian could be made: $(tail -n 1 "$tmp/log")"
else
    roots="$debian $roots"
fi
for root in $roots; do
    furnish "$root"
    check_root "${root##*/}" "$root"
    clear "$root"
done

# ------------------------------------------------------------ authorities
files=$tmp/files log=$tmp/log.tsv
mkdir "$files" && cp tests/data/examples/train.pt "$files"
lists='etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/ssl/ca-bundle.pem etc/ssl/cert.pem'
trusts() { static_in "$1" ls "$tls/files/train.pt" >"$tmp/of-server" && diff "$tmp/trusted" "$tmp/of-server"; }
trusts_list()
{
    mkdir -p "$tmp/empty/${1%/*}" && cp "$tmp/ca.pem" "$tmp/empty/$1" && trusts "$tmp/empty"
    status=$?
    rm -f "$tmp/empty/$1"
    return $status
}
distrusts()
{
    ! static_in "$1" ls "$tls/files/train.pt" >"$tmp/of-server" 2>&1 && cat "$tmp/of-server" &&
        grep -q 'hint: --cacert' "$tmp/of-server"
}
# trusts_installed - installs the authority in Debian, as its users do, and removes it again
trusts_installed()
{
    furnish "$debian" && distrusts "$debian" &&
        cp "$tmp/ca.pem" "$debian/usr/local/share/ca-certificates/tests.crt" &&
        in_root "$debian" update-ca-certificates && trusts "$debian"
    status=$?
    rm -f "$debian/usr/local/share/ca-certificates/tests.crt"
    in_root "$debian" update-ca-certificates --fresh
    clear "$debian"
    return $status
}
if ! command -v nginx >/dev/null || ! command -v openssl >/dev/null || [ ! -x "$B/tests/remote/server" ]; then
    skip 'nginx, openssl or the server of the tests is not there, so that nothing was read by TLS'
elif ! start_server || ! (make_certificates) >"$tmp/log" 2>&1 || ! start_nginx >>"$tmp/log" 2>&1; then
    check 'a server with TLS starts' false
else
    "$ckpt" ls --cacert "$tmp/ca.pem" "$tls/files/train.pt" >"$tmp/trusted"
    check 'an unknown authority is not trusted' distrusts "$tmp/empty"
    for list in $lists; do check "authorities in /$list are trusted" trusts_list "$list"; done
    case " $roots " in *" $debian "*) check 'an authority that Debian installs is trusted' trusts_installed ;; esac
fi
summary
