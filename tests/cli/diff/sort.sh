# --sort orders tensors by how much they changed, --top N prints the first N, and -l and --json print norms.
# not ASCII: the end of the Markdown
. "$TESTS/safetensors.sh"
h='{"big":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"none":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},"shape":{"dtype":"U8","shape":[1],"data_offsets":[9,10]},"small":{"dtype":"F32","shape":[2],"data_offsets":[10,18]},"zero":{"dtype":"F32","shape":[1],"data_offsets":[18,22]}}'
print_safetensors "$h" '\000\000\172\104\000\000\172\104xa\000\000\200\077\000\000\000\100\000\000\000\000' >a.safetensors
print_safetensors "$(printf %s "$h" | sed 's/"shape":{"dtype":"U8","shape":\[1\]/"shape":{"dtype":"U8","shape":[1,1]/')" \
    '\000\000\173\104\000\000\172\104xa\000\000\100\077\000\000\000\100\000\000\000\075' >b.safetensors
for sort in name rel-l2 max-abs; do
    ckpt diff --sort=$sort a.safetensors b.safetensors
done
ckpt diff -l a.safetensors b.safetensors
ckpt diff --top 2 a.safetensors b.safetensors
ckpt diff --top 1 --sort=max-abs --md a.safetensors b.safetensors
ckpt diff --top 2 --sort=rel-l2 --json a.safetensors b.safetensors
ckpt diff --json -j 1 --atol 10 -g big -g zero b.safetensors a.safetensors
ckpt diff --sort=size a.safetensors b.safetensors; echo $?
ckpt diff --keys-only --top 3 a.safetensors b.safetensors; echo $?
