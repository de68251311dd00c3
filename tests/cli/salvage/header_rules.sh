# safetensors that break only a rule of the header: readers refuse them, and say so; salvage writes the tensors, of
# which none is lost; doctor prints that.
# make NAME HEADER DATA - writes a safetensors file; DATA is a format of printf
make() { n=$(printf %s "$2" | wc -c); { printf "\\$(printf %03o "$n")\0\0\0\0\0\0\0%s" "$2"; printf "$3"; } >"$1"; }
attempt() { echo "# $1"; ckpt ls "$1"; rm -f o.safetensors; ckpt salvage "$1" -o o.safetensors; echo "exit $?"; }
w='"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
make numbers.safetensors "{\"__metadata__\":{\"epoch\":3,\"lr\":0.5,\"ok\":true,\"none\":null,\"a\":[1,{\"b\":\"]\"}],\"fmt\":\"pt\"},$w}" '\0\0\200?\0\0\0@'
make r.pt "{$w,\"__metadata__\":{\"..r\":{\"type\":\"module\",\"version\":3}}}" '\0\0\200?\0\0\0@X\n\0\0\0\003'
make twice.safetensors "{\"__metadata__\":{\"k\":1,\"k\":2},$w}" '\0\0\200?\0\0\0@'
make gap.safetensors '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[8,10]},"x":{"dtype":"U8","shape":[1],"data_offsets":[16,17]}}' 'abc\0\0\0\0\0de\0\0\0\0\0\0f'
make stray.safetensors '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}}' 'abc\0\0\0\0\1de'
make wide.safetensors '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[100000,100002]}}' abc
head -c 99999 /dev/zero >>wide.safetensors
make overlap.safetensors '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}' 'abcd'
make cut.safetensors '{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[8,10]}}' 'abc\0\0\0\0\0d'
for f in numbers.safetensors r.pt twice.safetensors gap.safetensors; do
    attempt $f; ckpt meta o.safetensors; ckpt hash o.safetensors | sed '$d'; ckpt verify $f; ckpt doctor $f
done
ckpt salvage -q r.pt -o again.pt && ckpt ls again.pt
make both.safetensors '{"__metadata__":{"k":1},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}' 'abcXde'
ckpt doctor both.safetensors
for f in stray wide overlap cut both; do attempt $f.safetensors; done
