# Names and layouts of different libraries: LLaMA of Meta and of transformers, GPT-2 with and without Conv1D, Mixtral of
# transformers 4 and 5, numbers from 0 and from 1, joined query, key and value.
. "$TESTS/match_input.sh"
print_meta()
{
    echo tok_embeddings.weight 50 16
    for layer in 0 1 2; do
        sed "s/^/layers.$layer./" <<END
attention.wq.weight 16 16
attention.wk.weight 8 16
attention.wv.weight 8 16
attention.wo.weight 16 16
feed_forward.w1.weight 40 16
feed_forward.w2.weight 16 40
feed_forward.w3.weight 40 16
attention_norm.weight 16
ffn_norm.weight 16
END
    done
    printf '%s\n' 'norm.weight 16' 'output.weight 50 16'
}
print_hf()
{
    print_meta | sed 's/^/model./; s/attention.w\([qkvo]\)/self_attn.\1_proj/; s/feed_forward.w1/mlp.gate_proj/
        s/feed_forward.w2/mlp.down_proj/; s/feed_forward.w3/mlp.up_proj/; s/attention_norm/input_layernorm/
        s/ffn_norm/post_attention_layernorm/; s/model.output/lm_head/; s/tok_embeddings/embed_tokens/'
}
print_meta | write_model meta.safetensors
print_hf | write_model hf.safetensors
ckpt match --rules -q hf.safetensors meta.safetensors
mend hf.safetensors meta.safetensors
mend meta.safetensors hf.safetensors
echo '--- GPT-2'
print_gpt2()
{
    echo "$1wte.weight 50 8"
    for layer in 0 1; do
        for name in "attn.c_attn $2" "attn.c_proj 8 8" "mlp.c_fc $3" "mlp.c_proj $4"; do
            echo "$1h.$layer.${name%% *}.weight ${name#* }"
        done
        echo "$1h.$layer.ln_1.weight 8"
        [ -n "$1" ] || echo "h.$layer.attn.bias 1 1 12 12"
    done
}
print_gpt2 '' '8 24' '8 32' '32 8' | write_model conv1d.safetensors
print_gpt2 transformer. '24 8' '32 8' '8 32' | write_model linear.safetensors
ckpt match linear.safetensors conv1d.safetensors
mend linear.safetensors conv1d.safetensors
echo '--- Mixtral'
print_experts()
{
    for layer in 0 1; do
        echo "model.layers.$layer.$1.gate.weight 3 8"
        echo "model.layers.$layer.self_attn.q_proj.weight 8 8"
        if [ "$1" = mlp ]; then
            echo "model.layers.$layer.mlp.experts.gate_up_proj 3 20 8"
            echo "model.layers.$layer.mlp.experts.down_proj 3 8 10"
            continue
        fi
        for expert in 0 1 2; do
            printf '%s\n' "w1.weight 10 8" "w2.weight 8 10" "w3.weight 10 8" |
                sed "s/^/model.layers.$layer.$1.experts.$expert./"
        done
    done
}
print_experts block_sparse_moe | write_model v4.safetensors
print_experts mlp | write_model v5.safetensors
ckpt match --rules -q v5.safetensors v4.safetensors
mend v5.safetensors v4.safetensors
ckpt match --rules -q v4.safetensors v5.safetensors
mend v4.safetensors v5.safetensors
echo '--- numbers, and joined parts'
print_hf | sed 's/layers.2/layers.3/; s/layers.1/layers.2/; s/layers.0/layers.1/' | write_model one.safetensors
ckpt match --rules -q one.safetensors hf.safetensors
mend one.safetensors hf.safetensors
mend hf.safetensors one.safetensors
print_hf | sed '/[kv]_proj/d; s/q_proj.weight 16/qkv_proj.weight 32/' | write_model joined.safetensors
ckpt match --rules -q joined.safetensors hf.safetensors
mend joined.safetensors hf.safetensors
mend hf.safetensors joined.safetensors
