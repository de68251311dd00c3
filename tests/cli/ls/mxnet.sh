# MXNet's .params files of each version are listed, with named, unnamed and sparse arrays; malformed ones are refused.
mxnet=corpus/mxnet
ckpt ls $mxnet/named.params $mxnet/list.params $mxnet/sparse.params $mxnet/npx.params
for f in dup magic name_count none short trunc trunc_data type99 trailing v0 v1 v2; do
    ckpt ls $mxnet/hand/$f.params
done
# A list of 2^63 - 1 arrays is refused: the file has fewer bytes.
printf '\022\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177' >many.params
ckpt ls many.params
# An array of shape [2^32, 2^32] is refused: its size does not fit in 64 bits.
printf '\022\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\311\372\223\371\0\0\0\0\002\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0\001\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0' >large.params
ckpt ls large.params
ckpt convert $mxnet/sparse.params -o sparse.safetensors
ckpt diff $mxnet/sparse.params sparse.safetensors
