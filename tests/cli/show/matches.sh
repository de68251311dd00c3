# show prints each match of a glob, -g, --root or a common prefix; if nothing matches, the error suggests the nearest names.
f=data/train.pt
. "$TESTS/safetensors.sh"
print_safetensors '{"enc.0.w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"enc.b":{"dtype":"U8","shape":[],"data_offsets":[2,3]},"fc.B":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}} ' abcd >flat.safetensors
ckpt show $f '*.bn1.bias'
echo -- slices
ckpt show $f '*bn1.*s[0:2]'; echo $?
echo -- values, too
ckpt show $f -g '*.base_lrs.*' -g epoch -g '!*arch'
ckpt show --json $f '*gamma'
ckpt show --json --root scheduler $f '*gamma'
echo -- case
ckpt show -i flat.safetensors FC.b; ckpt show flat.safetensors -ig '*.B'
echo -- a root
ckpt show --root state_dict $f module.fc.bias
ckpt show --root auto -q $f module.bn1.bias
ckpt show --root auto $f | head -n 3
ckpt show --json --root auto -q $f | head -c 300; echo
ckpt show --root state_dict.module $f 'fc.bias[::5]'
ckpt show --root state_dict.module $f
ckpt show --root optimizer $f param_groups.0
ckpt show --root optimizer.state $f 0
ckpt show --root nowhere $f fc; echo $?
echo -- a common prefix
ckpt show flat.safetensors enc; ckpt show --json flat.safetensors enc
ckpt show --root enc flat.safetensors 0.w; ckpt show --root enc flat.safetensors
echo -- none
ckpt show $f -g 'nothing'; echo $?
ckpt show $f '*.fx.*'; echo $?
ckpt show $f '*FC.bias'; echo $?
ckpt show $f -g '!*'; echo $?
ckpt show $f -g '*' epoch; echo $?
ckpt show flat.safetensors 'en[0]'; echo $?
# the path and the file in the wrong order
ckpt show epoch data/train.pt; echo $?
