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
