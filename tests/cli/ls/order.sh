# --order=file lists tensors in the order of the file.
ckpt ls --order=file corpus/torch/t26/state_dict.pt
ckpt ls --json --order file corpus/torch/t26/state_dict.pt | grep -o "\"name\":\"[^\"]*\"" | head -n 2
# Names are in natural order, whatever their order in the file is; each has its own shape.
awk 'BEGIN {
    for (i = 0; i < 500; i++) {
        n = i * 137 % 500
        printf "%s\"l.%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}", i ? "," : "{", n, n + 1, at, at + n + 1
        at += n + 1
    }
    print "}"
}' >header
{ printf '\100\234\0\0\0\0\0\0'; printf '%-40000s' "$(cat header)"; head -c 125250 /dev/zero; } >in.safetensors
ckpt ls in.safetensors | awk '$1 == "l." NR - 1 && $3 == "[" NR "]"' | wc -l | tr -d ' '
ckpt ls --order=size in.safetensors | awk '$1 == "l." 500 - NR && $3 == "[" 501 - NR "]"' | wc -l | tr -d ' '
