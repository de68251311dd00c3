# --parallel gives rules for how tensor-parallel ranks divide tensors for which no rule is built in.
ranks=corpus/megatron/tp2/iter_0000100
mkdir renamed
for rank in 0 1; do
    mkdir renamed/mp_rank_0$rank
    ckpt rename -q -s 'linear_fc2=>my_layer' -s 'linear_fc1=>my_gate' $ranks/mp_rank_0$rank/model_optim_rng.pt \
        -o renamed/mp_rank_0$rank/model_optim_rng.pt
done
ckpt ls renamed
echo '{"*.my_layer.weight": 1, "*.my_layer.*": null, "*.my_gate.*": 0}' >rules.json
ckpt ls --parallel rules.json renamed | head -n 8
ckpt rename -q --parallel rules.json -s 'my_layer=>linear_fc2' -s 'my_gate=>linear_fc1' renamed -o joined.pt
ckpt diff joined.pt corpus/megatron/tp1 2>/dev/null
# [0, 2] divides each rank's rows into two halves: the first halves of all ranks come first, as in a gated layer. This
# layer is not gated, so its rows are then in the wrong order.
echo '{"*.my_layer.weight": 1, "*.my_layer.*": null, "*.my_gate.*": [0, 2]}' >rules.json
ckpt rename -fq --parallel rules.json -s 'my_layer=>linear_fc2' -s 'my_gate=>linear_fc1' renamed -o joined.pt
ckpt diff joined.pt corpus/megatron/tp1 2>/dev/null | grep -v '^ '
# A layer is taken for a gated one if it has twice as many rows as the next layer has columns. It is joined as by the
# rule [0, 2].
mkdir gated
for rank in 0 1; do
    mkdir gated/mp_rank_0$rank
    ckpt rename -q -s 'linear_fc2=>attention.dense' -s 'self_attention.linear_proj=>mlp.linear_fc2' \
        $ranks/mp_rank_0$rank/model_optim_rng.pt -o gated/mp_rank_0$rank/model_optim_rng.pt
    ckpt show gated/mp_rank_0$rank/model_optim_rng.pt model.decoder.layers.0.mlp.linear_fc1.bias
done
ckpt show gated decoder.layers.0.mlp.linear_fc1.bias
# Rules that do not fit a tensor, and files that are no rules, are refused.
for rules in '{"*.my_layer.weight": 2, "*.my_layer.*": null, "*.my_gate.*": 0}' '{"*": [0, 7]}' '{"*": -1}' '{"*": [0, 0]}' \
    '{"*": "column"}' '[]' '{"a": 0} 1' '{'; do
    echo "$rules" >rules.json
    ckpt ls --parallel rules.json renamed
done
ckpt ls --parallel nowhere.json renamed
