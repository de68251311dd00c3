# --parallel gives rules for how tensor-parallel ranks divide tensors for which no rule is built in.
ranks=corpus/megatron/tp2/iter_0000100
mkdir x
for t in 0 1; do
    mkdir x/mp_rank_0$t
    ckpt rename -q -s 'linear_fc2=>my_layer' -s 'linear_fc1=>my_gate' $ranks/mp_rank_0$t/model_optim_rng.pt \
        -o x/mp_rank_0$t/model_optim_rng.pt
done
ckpt ls x
echo '{"*.my_layer.weight": 1, "*.my_layer.*": null, "*.my_gate.*": 0}' >rules.json
ckpt ls --parallel rules.json x | head -n 8
ckpt rename -q --parallel rules.json -s 'my_layer=>linear_fc2' -s 'my_gate=>linear_fc1' x -o y.pt
ckpt diff y.pt corpus/megatron/tp1 2>/dev/null
# [0, 2] joins two parts of each rank, as a gated layer has them, in a different order of rows.
echo '{"*.my_layer.weight": 1, "*.my_layer.*": null, "*.my_gate.*": [0, 2]}' >rules.json
ckpt rename -fq --parallel rules.json -s 'my_layer=>linear_fc2' -s 'my_gate=>linear_fc1' x -o y.pt
ckpt diff y.pt corpus/megatron/tp1 2>/dev/null | grep -v '^ '
# A gated layer has twice the rows that the next one takes: each rank's part of the gate, then of the other half.
mkdir g
for t in 0 1; do
    mkdir g/mp_rank_0$t
    ckpt rename -q -s 'linear_fc2=>attention.dense' -s 'self_attention.linear_proj=>mlp.linear_fc2' \
        $ranks/mp_rank_0$t/model_optim_rng.pt -o g/mp_rank_0$t/model_optim_rng.pt
    ckpt show g/mp_rank_0$t/model_optim_rng.pt model.decoder.layers.0.mlp.linear_fc1.bias
done
ckpt show g decoder.layers.0.mlp.linear_fc1.bias
# Rules that do not fit a tensor, and files that are no rules, are refused.
for r in '{"*.my_layer.weight": 2, "*.my_layer.*": null, "*.my_gate.*": 0}' '{"*": [0, 7]}' '{"*": -1}' '{"*": [0, 0]}' \
    '{"*": "column"}' '[]' '{"a": 0} 1' '{'; do
    echo "$r" >rules.json
    ckpt ls --parallel rules.json x
done
ckpt ls --parallel nowhere.json x
