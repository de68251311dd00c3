# A second cast replaces a first one that is exact; otherwise it would round twice, or not at all, and is refused.
edit() { ckpt edit -q -f --no-sync data/train.pt --root auto -o "$@"; }
edit once.safetensors -e 'cast *.weight f16' -e 'cast *.num_batches_tracked f32'
edit twice.safetensors -e 'cast *.weight f64 ; transpose *.fc.weight ; cast *.weight f16 ; cast f16' -e 'transpose *.fc.weight' \
    -e 'cast *.num_batches_tracked f32'
ckpt diff once.safetensors twice.safetensors
edit none.safetensors -e 'cast *.weight f64 ; cast f32' && ckpt ls none.safetensors -g '*.weight'
while IFS= read -r rule; do
    echo "# $rule" >&2
    edit out.safetensors -e "$rule"
done <<'END'
cast *.weight f16 ; cast f32
cast *.weight f16 ; cast bf16
cast *.weight f64 ; cast int8
cast module.bn1.num_batches_tracked f64 ; cast f16
cast module.fc.weight f64 ; cast q8_0
cast *.weight q8_0 ; cast f16
END
