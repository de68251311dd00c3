# If several problems have fixes, doctor prints one command for all; for NaN, which has no fix, it prints one that
# lists the tensors.
cp data/train.pt 'my t.pt'
ckpt doctor 'my t.pt'; echo $?
ckpt doctor 'my t.pt' | sed -n 's/^  all at once: //p' >fix
ckpt doctor --json 'my t.pt' | sed 's/.*"fix":"\(.*\)"}$/\1/' | diff - fix
sh fix 2>/dev/null; ckpt doctor fixed.pt; rm fixed.pt
cp corpus/torch/t215/python_objs.pt o.pt; ckpt add -q --allow-none module. o.pt -o p.pt; ckpt doctor p.pt; cp corpus/torch/t215/state_dict_p4.pt p4.pt; ckpt doctor p4.pt
ckpt strip -q --auto data/train.pt -o n.pt
ckpt convert -q --root state_dict n.pt n.safetensors
for at in 22000 21000; do printf '\377\377\377\377' | dd of=n.safetensors bs=1 seek=$at conv=notrunc 2>/dev/null; done
ckpt doctor --finite n.safetensors; echo $?
$(ckpt doctor --finite n.safetensors | sed -n 's/.*all such tensors: //p') | cut -c 1-40 | grep -c weight
ckpt verify --finite n.safetensors | tail -n 1
