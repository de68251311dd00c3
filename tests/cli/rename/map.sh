# --map renames by a JSON object; a name that the file lacks is reported.
echo "{\"fc.weight\": \"head.w\", \"fc.bias\": \"head.b\"}" >m.json
ckpt rename --map m.json corpus/torch/t26/state_dict.pt -o a.pt
ckpt ls -g "head*" a.pt
echo "{\"fc.wieght\": \"x\"}" >n.json
ckpt rename -m n.json corpus/torch/t26/state_dict.pt -o b.pt; echo $?
echo "[1]" >o.json
ckpt rename -m o.json corpus/torch/t26/state_dict.pt -o b.pt; echo $?
ckpt rename -m missing.json corpus/torch/t26/state_dict.pt -o b.pt; echo $?
echo 'fc.weight head.weight' >pairs.txt; ckpt rename --map pairs.txt corpus/torch/t26/state_dict.pt -o t.pt; echo $?
echo '["fc.weight"]' >list.json; ckpt rename --map list.json corpus/torch/t26/state_dict.pt -o t.pt; echo $?
