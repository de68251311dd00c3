# The same weights have the same digests in a zip of any pickle protocol, a legacy stream and safetensors.
ckpt convert -q corpus/torch/t26/state_dict_p4.pt s.safetensors
for f in corpus/torch/t26/state_dict_p*.pt s.safetensors; do
    ckpt hash -t $f | cut -c 1-64
done | sort | uniq -c | tr -s " "
