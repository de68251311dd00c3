# Levels, records and JSON; a name that would control the terminal or is not UTF-8; files with names split at slashes.
ckpt tree --depth 1 data/train.pt
ckpt tree --depth 2 --csv --header data/train.pt
ckpt tree --depth 1 --json data/train.pt
ckpt tree --tsv --root state_dict.module -g '*fc*' -g '!*bias' data/train.pt
ckpt tree --depth 3 --order=file data/train.pt
ckpt tree -g 'optimizer*' --depth 1 data/train.pt
ckpt tree --depth 1 data/train.pt corpus/torch/t26/state_dict.pt
ckpt tree --csv --header --depth 1 data/train.pt corpus/torch/t26/state_dict.pt
ckpt tree corpus/keras/k3/base.weights.h5
. "$TESTS/safetensors.sh"
print_safetensors '{"a.\u001b[31m\u202e.0":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a.\u001b[31m\u202e.1":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"{0-1}":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},"..":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},"":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}}' xy >h.safetensors
ckpt tree h.safetensors
ckpt tree --draw h.safetensors
ckpt tree --json h.safetensors
ckpt tree --tsv h.safetensors
print_safetensors '{}' '' >empty.safetensors
ckpt tree empty.safetensors
ckpt tree --json empty.safetensors
for options in '-g nothing' '-g nothing --allow-none' '--draw --json' '--draw --csv' '--tsv --csv' '--depth x' '--order=bytes'; do
    # shellcheck disable=SC2086
    ckpt tree $options data/train.pt 2>&1
    echo "$?"
done
ckpt tree missing.pt 2>&1; echo "$?"
