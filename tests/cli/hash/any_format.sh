# The same weights, the same digests: zip of any protocol, legacy stream, safetensors.
ckpt convert -q corpus/torch/t26/state_dict_p4.pt s.safetensors
for f in corpus/torch/t26/state_dict_p*.pt s.safetensors; do
    ckpt hash -t $f | cut -c 1-64
done | sort | uniq -c | tr -s " "
