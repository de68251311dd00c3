# strip and add print a line for each mapping that they change, as the weights and an averaged copy of them. --json also
# lists optimizers; the renamed and the unchanged rows together are all rows.
ckpt add x. corpus/torch/t215/eco/timm_last.pth.tar -o a.pt
ckpt strip --auto --check a.pt
ckpt strip x. a.pt -o b.pt
ckpt diff b.pt corpus/torch/t215/eco/timm_last.pth.tar | tail -n 1
ckpt add x. corpus/torch/t215/many_models.pt -o c.pt
ckpt add x. corpus/torch/t26/quantmodel.pt -o d.pt
for f in corpus/torch/t26/quantmodel.pt corpus/torch/t215/eco/timm_last.pth.tar corpus/torch/t215/many_models.pt; do
    rows=$(ckpt ls $f | wc -l)
    ckpt add x. -n --json $f -o x.pt >x.json
    renamed=$(sed 's/.*"renamed":\[//; s/\],"renamed_metadata".*//; s/{"from"/\n&/g' x.json | grep -c from)
    unchanged=$(sed 's/.*"unchanged":\([0-9]*\).*/\1/' x.json)
    echo "$((rows - renamed - unchanged)) rows missing of $rows"
    sed 's/.*"mappings":/mappings /; s/,"unchanged".*//' x.json
done
echo -- a container with two names: JSON and the report count both of its names
. "$TESTS/legacy.sh"
write_legacy two.pt "}Vmodel
}p9
Vm.a
$(print_tensor 0)sVm.b
$(print_tensor 1)ssVcopy
g9
sVother
}Vb.c
$(print_tensor 2)ss"
ckpt ls two.pt
ckpt strip m. -n --json two.pt -o x.pt
ckpt strip m. two.pt -o x.pt
ckpt ls x.pt
