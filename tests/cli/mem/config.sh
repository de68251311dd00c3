# mem refuses or ignores each fault of a config.json: wrong types, numbers out of range, keys that come twice.
# write_config NAME=VALUE… - writes the config.json of a LLaMA with keys changed or added
write_config()
{
    json='{"model_type":"llama","vocab_size":100,"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,
           "num_key_value_heads":2,"hidden_act":"silu","intermediate_size":128'
    for pair; do
        json=$(printf '%s' "$json" | sed "s/\"${pair%%=*}\":[^,]*,//")
        json="$json,\"${pair%%=*}\":${pair#*=}"
    done
    printf '%s}' "$json" >config.json
}
for pair in hidden_size=64 hidden_size=64.0 hidden_size='"64"' hidden_size=-64 hidden_size=[64] hidden_size=1e2 \
    hidden_size=99999999999999999999 hidden_size=null hidden_size=NaN num_hidden_layers=0 num_hidden_layers=2000000000 \
    num_attention_heads=5 num_attention_heads=3 num_key_value_heads=3 num_key_value_heads=0 num_key_value_heads=null \
    head_dim=32 hidden_act='"gelu"' hidden_act=3 attention_dropout=0.1 attention_dropout=0.0 attention_bias='"no"' \
    tie_word_embeddings='"yes"' tie_word_embeddings=true torch_dtype='"bfloat16"' torch_dtype='"int4"' \
    sliding_window=8 sliding_window=16 sliding_window='"16"' sliding_window=true sliding_window=-1 sliding_window={} \
    model_type='"gemma"' model_type=null model_type=5 num_experts=8 num_experts=1 is_encoder_decoder=true \
    quantization_config='{"bits":4}' hidden_size=4294967295; do
    write_config "$pair"
    echo "$pair: $(ckpt mem config.json -b 2 -s 16 2>&1 | sed -n 's/^activations/ok, &/p; s/^ckpt: //p')"
done
for pair in attn_pdrop=0 attn_pdrop=0e9 attn_pdrop=-1 attn_pdrop='"0.1"' attn_pdrop=false activation_function='"relu"' \
    n_inner=3072; do
    sed "s/^ *\"${pair%%=*}\".*/\"${pair%%=*}\": ${pair#*=},/" data/gpt2.json >config.json
    echo "$pair: $(ckpt mem config.json -b 2 -s 16 2>&1 | sed -n 's/^activations/ok, &/p; s/^ckpt: //p')"
done
for text in '' '[1]' '{"a":1,"a":2}' '{"a":1} x' '{"model_type":"llama"}' '{"vocab_size":3}' \
    '{"model_type":"bert","num_hidden_layers":1,"hidden_size":8,"vocab_size":9}'; do
    printf '%s' "$text" >config.json
    ckpt mem config.json; echo "exit $?"
done
{ printf '{"a":'; head -c 100000 /dev/zero | tr '\0' '['; } >config.json
ckpt mem config.json; echo "exit $?"
# a config next to a checkpoint is ignored if it is wrong, and the states are still counted
printf '{"vocab_size":"3"' >config.json
cp corpus/torch/t215/tied.pt .
ckpt mem tied.pt; echo "exit $?"
ckpt mem tied.pt --config '' | tail -n 1
