# strip undoes add: the file is the same, byte for byte, as one that strip wrote without removing anything; a prefix that does not end with a dot is noted.
ckpt add m. corpus/torch/t26/state_dict.pt -o a.pt
ckpt ls a.pt | head -n 2
ckpt strip m. a.pt -o b.pt
ckpt strip --allow-none none. corpus/torch/t26/state_dict.pt -q -o c.pt
cmp b.pt c.pt && echo same
ckpt add nodot corpus/torch/t26/tied.pt --check; echo $?
