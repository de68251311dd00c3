#!/bin/sh
# bench/growth.sh - checks that each command takes at most 2.3 times the steps for a file with twice the tensors, in
# each format that ckpt writes. build/steps/tests/bench/ckpt-steps counts the steps (steps.c), so they are the same on
# every machine. GROWTH_SHOW=1 prints them.
set -u
B=${B:-build}
ckpt=$B/steps/tests/bench/ckpt-steps
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
few=500
percent=230

if [ ! -x "$ckpt" ]; then
    echo 'growth skipped: the compiler has no -fsanitize-coverage=trace-pc'
    echo 'growth: 0 passed, 0 failed, 1 skipped'
    exit 0
fi

# count_steps COMMAND… - sets $steps to the steps that ckpt COMMAND takes. Fails if it exits with more than 1; scan
# may exit with 2, because it cannot look into each format.
count_steps()
{
    rm -rf "$tmp"/out*
    STEPS=$tmp/steps "$ckpt" "$@" >/dev/null 2>"$tmp/messages"
    code=$?
    [ "$1" = scan ] && [ $code -eq 2 ] && code=1
    [ $code -le 1 ] && read -r steps <"$tmp/steps"
}

# check_growth FILE OTHER COMMAND… - checks COMMAND, in which FILE stands for a file in $tmp/few and $tmp/twice, and
# OTHER for another file
check_growth()
{
    file=$1 other=$2 all_steps=
    shift 2
    for folder in few twice; do
        arguments=
        for word; do
            case $word in
            FILE) word=$tmp/$folder/$file ;;
            OTHER) word=$tmp/$folder/$other ;;
            OUT*) word=$tmp/out${word#OUT} ;;
            esac
            arguments="$arguments '$word'"
        done
        if ! eval "count_steps $arguments"; then
            failed=$((failed + 1))
            echo "FAIL $* of $folder/$file: $(head -n 2 "$tmp/messages")"
            return
        fi
        all_steps="$all_steps $steps"
    done
    # shellcheck disable=SC2086
    compare_steps "$file: $*" $all_steps
}

# compare_steps TITLE FEW TWICE
compare_steps()
{
    [ -z "${GROWTH_SHOW:-}" ] || echo "$1: $2, $3: $(($3 * 100 / $2)) %"
    if [ $(($3 * 100)) -le $(($2 * percent)) ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: $2 steps, $3 for twice the tensors: $(($3 * 100 / $2)) %, at most $percent %"
    fi
}

# make_files FOLDER TENSORS - writes the same tensors in each format to $tmp/FOLDER
make_files()
{
    mkdir "$tmp/$1"
    st=$tmp/$1/model.safetensors
    "$B/tests/bench/mkckpt" -n "$2" -b "${2}0" "$st" >/dev/null &&
        "$ckpt" rename -q --no-sync -s 'weight$=>w' "$st" -o "$tmp/$1/renamed.safetensors" || exit 2
    for name in model.pt model.npz model.gguf model.msgpack; do
        "$ckpt" convert -q --no-sync --architecture=llama "$st" "$tmp/$1/$name" || exit 2
    done
    "$ckpt" convert -q --no-sync --to=dcp "$st" -o "$tmp/$1/dcp" || exit 2
    for suffix in safetensors bin; do # four tensors in each file of a set
        mkdir "$tmp/$1/$suffix"
        "$ckpt" convert -q --no-sync --max-shard-size=40 "$st" -o "$tmp/$1/$suffix/model.$suffix" || exit 2
    done
    rm "$tmp/$1/safetensors/model.safetensors.index.json" # such a set is found by its names
}

# check_reading FILE - checks the commands that read FILE, or write what they read
check_reading()
{
    check_growth "$1" '' ls FILE
    check_growth "$1" '' ls --json FILE
    check_growth "$1" '' ls --depth=2 FILE
    check_growth "$1" '' info FILE
    check_growth "$1" '' show FILE model.layers.1.mlp.up_proj.weight
    check_growth "$1" '' stat FILE
    check_growth "$1" '' mem FILE
    check_growth "$1" '' hash FILE
    check_growth "$1" renamed.safetensors diff FILE OTHER
    check_growth "$1" '' verify FILE
    check_growth "$1" '' doctor FILE
    check_growth "$1" '' scan --sandbox=off FILE
    check_growth "$1" '' strip -n model. FILE
    check_growth "$1" '' rename -n -s '([0-9]+)=>x\1' FILE
    check_growth "$1" '' sanitize --no-sync FILE -o OUT.pt
    check_growth "$1" '' salvage --no-sync FILE -o OUT.safetensors
    check_growth "$1" '' convert --no-sync --cast=bf16 FILE OUT.pt
}

# check_options FILE - checks options and outputs that do not depend on the format of FILE
check_options()
{
    for option in --tree --tsv --order=natural --root=model; do
        check_growth "$1" '' ls "$option" FILE
    done
    check_growth "$1" '' show FILE
    check_growth "$1" '' meta FILE
    check_growth "$1" renamed.safetensors diff --keys-only FILE OTHER
    check_growth "$1" "$1" diff FILE OTHER
    check_growth "$1" '' add -n x. FILE
    check_growth "$1" '' convert -n --dequantize FILE OUT.safetensors
    check_growth "$1" '' convert -n --keep='*up*' --drop='*0*' FILE OUT.safetensors
    for output in OUT.safetensors OUT.npz OUT.gguf OUT.msgpack; do
        check_growth "$1" '' convert --no-sync --architecture=llama FILE $output
    done
    check_growth "$1" '' convert --no-sync --to=dcp FILE OUT
    for size in 1000 1; do # shards of 100 tensors and of one
        check_growth "$1" '' convert --no-sync --max-shard-size=$size FILE -o OUT.safetensors
    done
    check_growth "$1" renamed.safetensors convert --no-sync FILE OTHER -o OUT.pt
}

# check_foreign FILE - checks the commands that read FILE, of a format that ckpt does not write
check_foreign()
{
    for command in ls info stat hash verify doctor 'scan --sandbox=off'; do
        # shellcheck disable=SC2086
        check_growth "$1" '' $command FILE
    done
    check_growth "$1" "$1" diff FILE OTHER
    check_growth "$1" '' convert --no-sync FILE OUT.safetensors
    check_growth "$1" '' salvage --no-sync FILE -o OUT.safetensors
    check_growth "$1" '' rename -n -s '([0-9]+)=>x\1' FILE
}

make_files few $few
make_files twice $((2 * few))
for file in model.safetensors model.pt model.npz model.gguf model.msgpack dcp safetensors bin; do
    check_reading $file
done
check_options model.safetensors
check_options model.pt
tar -xzf tests/bench/growth.tar.gz -C "$tmp" || exit 2
for file in earliest.h5 latest.h5 legacy.pt model.ckpt.index model.joblib model.keras model.pdparams orbax script.pt \
    zarr2 zarr3 trained.pt model.onnx tfjs archive.zip model.params mindspore.ckpt openvino.xml \
    paddle2.pdiparams paddle3.pdiparams fluid model.tensors thinc.bin snapshot zero2 zero3 megatron; do
    check_foreign $file
done
check_growth trained.pt '' mem FILE # it counts the states of an optimizer
for command in hash stat; do # the bytes of one tensor are twice as many, and each chunk has a few of every row
    check_growth columns.h5 '' $command FILE
done
echo "growth: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
