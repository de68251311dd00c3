# mem recognizes GPT-2 in safetensors by names and shapes, under any prefix, with or without a config next to it.
# add_tensor NAME SHAPE ELEMENTS - adds a tensor to the file header, with its data at $offset
add_tensor()
{
    next=$((offset + 4 * $3))
    printf '%s"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}' "$comma" "$1" "$2" "$offset" "$next" >>header
    offset=$next comma=,
}
# make_gpt2 PREFIX BLOCKS [EXTRA] - writes a GPT-2 of zeros with BLOCKS blocks, and a tensor EXTRA if given, to
# gpt2.safetensors. PREFIX comes before each name but EXTRA.
make_gpt2()
{
    offset=0 comma= block=0
    printf '{' >header
    add_tensor "$1wte.weight" 20,8 160
    add_tensor "$1wpe.weight" 16,8 128
    while [ $block -lt "$2" ]; do
        add_tensor "$1h.$block.ln_1.weight" 8 8
        add_tensor "$1h.$block.ln_1.bias" 8 8
        add_tensor "$1h.$block.attn.c_attn.weight" 8,24 192
        add_tensor "$1h.$block.attn.c_attn.bias" 24 24
        add_tensor "$1h.$block.attn.c_proj.weight" 8,8 64
        add_tensor "$1h.$block.attn.c_proj.bias" 8 8
        add_tensor "$1h.$block.ln_2.weight" 8 8
        add_tensor "$1h.$block.ln_2.bias" 8 8
        add_tensor "$1h.$block.mlp.c_fc.weight" 8,32 256
        add_tensor "$1h.$block.mlp.c_fc.bias" 32 32
        add_tensor "$1h.$block.mlp.c_proj.weight" 32,8 256
        add_tensor "$1h.$block.mlp.c_proj.bias" 8 8
        block=$((block + 1))
    done
    add_tensor "$1ln_f.weight" 8 8
    add_tensor "$1ln_f.bias" 8 8
    [ -z "${3:-}" ] || add_tensor "$3" 8 8
    printf '}' >>header
    length=$(wc -c <header)
    printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\\0\\0\\0\\0\\0\\0" >gpt2.safetensors
    cat header >>gpt2.safetensors
    head -c $offset /dev/zero >>gpt2.safetensors
}
for prefix in transformer. '' module.transformer. _orig_mod.module.transformer.; do
    make_gpt2 "$prefix" 2
    ckpt mem gpt2.safetensors -b 2 -s 16 --heads 2
done
ckpt mem gpt2.safetensors -b 2 -s 16; echo "exit $?"
ckpt mem gpt2.safetensors -b 2 -s 16 --attn eager; echo "exit $?"
ckpt mem gpt2.safetensors -b 2 -s 16 --attn eager --heads 2 --dropout off
printf '{"model_type":"gpt2","n_embd":8,"n_head":2,"attn_pdrop":0.0,"resid_pdrop":0.0,"embd_pdrop":0.0}' >config.json
ckpt mem gpt2.safetensors -b 2 -s 16 --json
# a config of a different width, then of a different family
printf '{"model_type":"gpt2","n_embd":16,"n_head":2}' >config.json
ckpt mem gpt2.safetensors; echo "exit $?"
ckpt mem gpt2.safetensors --config '' | tail -n 1
printf '{"model_type":"llama","n_embd":8}' >config.json
ckpt mem gpt2.safetensors -b 2 -s 16; echo "exit $?"
rm config.json
# With a tensor that GPT-2 does not have, or one of a block that lacks all others, the model is not recognized.
make_gpt2 transformer. 2 transformer.h.0.attn.lora_A.weight
ckpt mem gpt2.safetensors -b 2 -s 16; echo "exit $?"
make_gpt2 transformer. 2 transformer.extra
ckpt mem gpt2.safetensors -b 2 -s 16; echo "exit $?"
make_gpt2 transformer. 2 transformer.h.3.ln_1.weight
ckpt mem gpt2.safetensors -b 2 -s 16; echo "exit $?"
# A control character in the prefix is escaped.
make_gpt2 '\u001b[31m.transformer.' 2
ckpt mem gpt2.safetensors | head -n 1
