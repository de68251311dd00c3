# A state dict that Python 2 pickled is the call OrderedDict([…]), then BUILD with its _metadata. It is written as Python 3
# pickles it, with the tensors before the BUILD: the output of a file that scan allows is one that scan allows.
for f in dp_state_dict.pt general_checkpoint.pth.tar plain_pickle.pkl state_dict.pt zip_optin_state_dict.pt; do
    in=corpus/torch/t14py2/$f
    ckpt convert -q $in -o converted.pt
    ckpt strip -q --auto $in -o stripped.pt
    ckpt rename -q -s '^=>model.' $in -o renamed.pt
    ckpt scan $in converted.pt stripped.pt renamed.pt
    ckpt diff $in converted.pt
    rm ./*.pt
done
# pairs that the call has, then one more
printf '\200\002ccollections\nOrderedDict\n](X\1\0\0\0aK\001\206e\205RX\1\0\0\0bK\002s.' >more.pkl
ckpt ls --values more.pkl
