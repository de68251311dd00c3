# salvage reads cut legacy streams and safetensors, writes each format and JSON, and refuses what is no checkpoint.
head -c 1700 corpus/torch/t26/state_dict_legacy.pt >a.pt
ckpt salvage a.pt -o b.pt; echo $?
ckpt diff corpus/torch/t26/state_dict_legacy.pt b.pt
ckpt convert -q data/train.pt c.safetensors
head -c 15000 c.safetensors >d.safetensors
ckpt salvage d.safetensors -o e.safetensors; echo $?
ckpt diff c.safetensors e.safetensors
ckpt salvage --json a.pt -o f.safetensors; echo $?
ckpt salvage -n a.pt -o g.pt 2>/dev/null; echo $?; ls g.pt 2>/dev/null
ckpt salvage c.safetensors -o h.pt; echo $?
head -c 100 c.safetensors >i.safetensors; ckpt salvage i.safetensors -o j.pt; echo $?
echo no >k; ckpt salvage k -o l.pt; echo $?
ckpt salvage a.pt; echo $?
ckpt salvage a.pt -o b.pt; echo $?
# a tar of torch 0.1: it is cut inside its second storage, inside the tar header of its member "storages", before that of
# "tensors", and inside that of "pickle"; then a byte in the tar header of "tensors" is wrong
f=corpus/torch/legexp/t_tar.pt
for n in 3693 3100 2000 1100; do head -c $n $f >m.pt; ckpt salvage -f m.pt -o n.pt; echo $?; done
{ head -c 2181 $f; printf X; tail -c +2183 $f; } >o.pt; ckpt salvage o.pt -o p.pt; echo $?; ckpt diff $f p.pt
