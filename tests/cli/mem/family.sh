# mem recognizes GPT-2 in safetensors by names and shapes, under any prefix, with or without a config next to it.
# tensor NAME SHAPE ELEMENTS - one more entry of the header
tensor()
{
    next=$((at + 4 * $3))
    printf '%s"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}' "$comma" "$1" "$2" "$at" "$next" >>header
    at=$next comma=,
}
# gpt2 PREFIX BLOCKS [EXTRA [FILE]] - writes a GPT-2 of zeros, and a tensor EXTRA if given, to FILE (g.safetensors)
gpt2()
{
    at=0 comma= block=0
    printf '{' >header
    tensor "$1wte.weight" 20,8 160
    tensor "$1wpe.weight" 16,8 128
    while [ $block -lt "$2" ]; do
        tensor "$1h.$block.ln_1.weight" 8 8
        tensor "$1h.$block.ln_1.bias" 8 8
        tensor "$1h.$block.attn.c_attn.weight" 8,24 192
        tensor "$1h.$block.attn.c_attn.bias" 24 24
        tensor "$1h.$block.attn.c_proj.weight" 8,8 64
        tensor "$1h.$block.attn.c_proj.bias" 8 8
        tensor "$1h.$block.ln_2.weight" 8 8
        tensor "$1h.$block.ln_2.bias" 8 8
        tensor "$1h.$block.mlp.c_fc.weight" 8,32 256
        tensor "$1h.$block.mlp.c_fc.bias" 32 32
        tensor "$1h.$block.mlp.c_proj.weight" 32,8 256
        tensor "$1h.$block.mlp.c_proj.bias" 8 8
        block=$((block + 1))
    done
    tensor "$1ln_f.weight" 8 8
    tensor "$1ln_f.bias" 8 8
    [ -z "${3:-}" ] || tensor "$3" 8 8
    printf '}' >>header
    length=$(wc -c <header)
    printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0" >"${4:-g.safetensors}"
    cat header >>"${4:-g.safetensors}"
    head -c $at /dev/zero >>"${4:-g.safetensors}"
}
for prefix in transformer. '' module.transformer. _orig_mod.module.transformer.; do
    gpt2 "$prefix" 2
    ckpt mem g.safetensors -b 2 -s 16 --heads 2
done
ckpt mem g.safetensors -b 2 -s 16; echo "exit $?"
ckpt mem g.safetensors -b 2 -s 16 --attn eager; echo "exit $?"
ckpt mem g.safetensors -b 2 -s 16 --attn eager --heads 2 --dropout off
printf '{"model_type":"gpt2","n_embd":8,"n_head":2,"attn_pdrop":0.0,"resid_pdrop":0.0,"embd_pdrop":0.0}' >config.json
ckpt mem g.safetensors -b 2 -s 16 --json
printf '{"model_type":"gpt2","n_embd":16,"n_head":2}' >config.json
ckpt mem g.safetensors; echo "exit $?"
ckpt mem g.safetensors --config '' | tail -n 1
printf '{"model_type":"llama","n_embd":8}' >config.json
ckpt mem g.safetensors -b 2 -s 16; echo "exit $?"
rm config.json
gpt2 transformer. 2 transformer.h.0.attn.lora_A.weight
ckpt mem g.safetensors -b 2 -s 16; echo "exit $?"
gpt2 transformer. 2 transformer.extra
ckpt mem g.safetensors -b 2 -s 16; echo "exit $?"
gpt2 transformer. 2 transformer.h.3.ln_1.weight
ckpt mem g.safetensors -b 2 -s 16; echo "exit $?"
gpt2 '\u001b[31m.transformer.' 2
ckpt mem g.safetensors | head -n 1
