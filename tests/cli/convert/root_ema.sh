# --root selects averaged copies by their path, as it selects weights.
. "$TESTS/safetensors.sh"
print_safetensors '{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"ema.w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"ema.b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}' abc >flat.safetensors
ckpt convert --root ema flat.safetensors ema.pt; ckpt ls ema.pt; ckpt show ema.pt w
ckpt convert --root ema flat.safetensors ema.safetensors; ckpt ls ema.safetensors
ckpt diff --root-a ema flat.safetensors ema.pt; ckpt diff ema.pt ema.safetensors
# --root takes all of a container, and refuses one without tensors.
ckpt convert --root scheduler --strict data/train.pt no.pt; echo $?
ckpt convert --root optimizer.state data/train.pt state.pt; ckpt ls state.pt | head -n 2
