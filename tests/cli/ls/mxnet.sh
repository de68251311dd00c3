# MXNet's .params files of each version are listed, with named, unnamed and sparse arrays; malformed ones are refused.
mxnet=corpus/mxnet
ckpt ls $mxnet/named.params $mxnet/list.params $mxnet/sparse.params $mxnet/npx.params
for f in dup magic name_count none short trunc trunc_data type99 trailing v0 v1 v2; do
    ckpt ls $mxnet/hand/$f.params
done
# more arrays than bytes, and a size beyond 64 bits, are refused
printf '\022\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177' >many.params
ckpt ls many.params
printf '\022\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\311\372\223\371\0\0\0\0\002\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0' >large.params
ckpt ls large.params
ckpt convert $mxnet/sparse.params -o sparse.safetensors
ckpt diff $mxnet/sparse.params sparse.safetensors
