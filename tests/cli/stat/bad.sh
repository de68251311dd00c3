# stat counts NaN and infinities and leaves them out of the other numbers; --fail-on exits 1 if there are any.
header='{"ok":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"x":{"dtype":"F16","shape":[6],"data_offsets":[8,20]}}'
{
    printf "\\$(printf %03o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
    printf '\000\000\200\077\000\000\000\300'                 # 1 -2
    printf '\000\176\000\174\000\374\000\200\000\074\000\000' # NaN Inf -Inf -0 1 0
} >bad.safetensors
ckpt stat bad.safetensors
ckpt stat --tsv bad.safetensors
for what in nan inf nan,inf inf,nan nan,zero ''; do
    ckpt stat --fail-on "$what" bad.safetensors >/dev/null; echo $?
done
ckpt stat --fail-on nan -g ok bad.safetensors >/dev/null; echo $?
ckpt stat -q --fail-on=nan bad.safetensors >/dev/null; echo $?
# with -q, --fail-on prints only the tensors that fail
ckpt convert -q data/train.pt good.safetensors
ckpt stat -q --fail-on=inf bad.safetensors good.safetensors; echo $?
ckpt stat -q --tsv --header --fail-on=nan bad.safetensors good.safetensors; echo $?
ckpt stat -q --fail-on=nan good.safetensors; echo $?
ckpt stat -q --fail-on=NaN,Inf good.safetensors; echo $?
