# --file-sha256 prints the digest that sha256sum prints; --payload-sha256 does not depend on the safetensors header.
cp corpus/torch/t26/tied.pt net.pth
ckpt hash --file-sha256 net.pth
sha256sum net.pth
printf "no checkpoint" >other-12.bin
ckpt hash --json --file-sha256 other-12.bin
ckpt convert -q corpus/torch/t26/state_dict_p4.pt a.safetensors
ckpt add -q x. a.safetensors -o b.safetensors
payload_offset=$((8 + $(od -An -tu8 -N8 b.safetensors)))
[ "$(tail -c +$((payload_offset + 1)) b.safetensors | sha256sum | cut -c 1-64)" = "$(ckpt hash --payload-sha256 b.safetensors | cut -c 1-64)" ] && echo payload
[ "$(ckpt hash --payload-sha256 a.safetensors | cut -c 1-64)" = "$(ckpt hash --payload-sha256 b.safetensors | cut -c 1-64)" ] && echo same
ckpt hash --payload-sha256 net.pth
echo $?
ckpt hash --file-sha256 --xxh3 net.pth
echo $?
ckpt hash --file-sha256 --hub-name net.pth
echo $?
ckpt hash --file-sha256 missing
echo $?
