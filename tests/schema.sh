#!/bin/sh
# schema.sh - validates what --json prints against man/schema, by schema.c: the expected outputs of all cases of
# tests/cli, the outputs of commands for samples of the corpus, and outputs for files that are made here, because
# schema.c fails for a property that is in no output.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
top=$PWD
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

ckpt() { "$CKPT" "$@" --json 2>&1; }

# print_json - prints all these outputs
print_json()
{
    cat "$top"/tests/cli/*/*.stdout "$top"/tests/cli/*/*.stderr
    for command in ls tree info hash stat verify doctor scan; do
        ckpt $command "$top"/tests/corpus/torch/t26/* "$top"/tests/corpus/torch/t215/*.pt "$top"/lib/ckpt.h
    done
    for file in "$top"/tests/corpus/torch/t26/*.pt; do
        ckpt ls --values "$file"
        ckpt show "$file"
        for command in sanitize convert salvage 'strip --auto' 'add x.' 'rename -s e=>f'; do
            # shellcheck disable=SC2086
            ckpt $command -n "$file" -o out.pt
        done
        ckpt diff "$file" "$top/tests/corpus/torch/t26/state_dict.pt"
    done
    train=$top/tests/data/examples/train.pt
    ckpt strip --auto "$train" -o bare.pt
    ckpt diff "$train" bare.pt
    ckpt match "$train" bare.pt
    ckpt match "$top/tests/corpus/torch/t26/tied.pt" bare.pt
    lists=$top/tests/corpus/flax/lists.msgpack
    "$CKPT" ls "$lists" | sed 's/^\([^. ]*\)\./\1q./' >nested.txt
    ckpt match nested.txt "$lists"
    ckpt show "$train" state_dict
    ckpt scan --sha256 "$train"
    ckpt convert "$top/tests/corpus/torch/t26/tied.pt" tied.safetensors
    ckpt meta tied.safetensors a=b -o noted.safetensors
    "$CKPT" edit -q tied.safetensors -e 'reshape a [3, 4]' -o cut.safetensors
    ckpt average tied.safetensors cut.safetensors -o none.safetensors
    ckpt average tied.safetensors --base tied.safetensors --part 0/2 -n -o none.safetensors
    mkdir adapter
    printf '{"peft_type":"LORA","r":2,"lora_alpha":4}' >adapter/adapter_config.json
    "$CKPT" edit -q "$top/tests/corpus/torch/t26/dp_state_dict.pt" -o adapter/adapter_model.safetensors \
        -e 'keep *fc.weight' -e 'tie *fc.weight *fc.lora_A.weight' -e 'untie *fc.lora_A.weight' \
        -e 'slice *fc.weight [:, :2] -> *fc.lora_B.weight'
    ckpt lora "$top/tests/corpus/torch/t26/dp_state_dict.pt" adapter --part 0/2 -n --to safetensors -o none.safetensors
    "$CKPT" edit -q tied.safetensors -e 'untie *' -e 'set * = 0.5' -o tuned.safetensors
    ckpt lora --extract tied.safetensors tuned.safetensors --rank 1 -o adapter2 # an error; see also tests/cli/lora
    ckpt info noted.safetensors
    ckpt info "$top/tests/corpus/tensorflow/obj/fit.index" "$top/tests/corpus/keras/tfk/opt_sgd.keras"
    ckpt info "$top/tests/corpus/megatron/tp2_pp2" "$top/tests/corpus/deepspeed/zero3_fp32"
    ckpt edit "$train" -o edited.pt -e 'cast *fc.weight f16' -e 'set epoch = 7' -e 'param n = 3'
    echo '{"own": 2}' >config.json
    ckpt edit tied.safetensors -o part.safetensors -e 'param n = own' -e 'keep *' --part 0/2
    head -c 20000 "$train" >cut.pt
    ckpt ls cut.pt
    # an argument of 2000 characters; a frame that ends within an opcode; in a pickle of joblib, an array whose bytes
    # look like an opcode
    printf '\200\004\225\003\0\0\0\0\0\0\0cos\nsystem\n(S"%02000d"\ntR.' 0 >long.pkl
    ckpt scan long.pkl
    printf '\200\004\225\002\0\0\0\0\0\0\0]X\010\0\0\0\0\0\0\0N.cos\nsystem\n(S"id"\ntR.' >frame.pkl
    ckpt scan frame.pkl
    {
        printf '\200\002cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\201}(X\010\0\0\0subclasscnumpy\nndarray\n'
        printf 'X\005\0\0\0shapeK\011\205X\005\0\0\0orderX\001\0\0\0CX\005\0\0\0dtypecnumpy\ndtype\n('
        printf 'X\002\0\0\0u1\211\210tR(K\003X\001\0\0\0|NNNJ\377\377\377\377J\377\377\377\377K\0tbubcos\nevil\n.'
    } >array.joblib
    ckpt scan array.joblib
    # an array below the key 1, and below the key '1'
    for key in 'K\001' 'X\001\0\0\0001'; do
        {
            # shellcheck disable=SC2059
            printf "\200\002}${key}cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\205U\001btR("
            printf 'K\001K\001\205cnumpy\ndtype\n(U\002u1K\0K\001tR(K\003U\001|NNNI-1\nI-1\nK\0tb\211U\001atbs.'
        } >"${key%%\\*}.pkl"
    done
    ckpt diff K.pkl X.pkl
}

cd "$work" && print_json | "$top/$B/tests/schema" "$top/man/schema"
