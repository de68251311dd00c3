# ls and ls --json escape the same characters, which are invisible or change the direction of text, and no others.
# not ASCII: names in JSON
escapes='034f 115f 1160 17b4 180b 180f 061c 200b 2028 202e 2066 3164 fe0f feff ffa0 fff9 0085 00ad d80d\udc30 d82f\udca0 d834\udd73 db40\udc01 db40\udd00'
header=
for escape in $escapes; do header="$header\"\\u$escape\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"; done
header="{$header\"\\u00e4\\u4e2d\\ud83d\\ude00\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"
. "$TESTS/safetensors.sh"
print_safetensors "$header" '' >n.safetensors
ckpt ls n.safetensors
ckpt ls --json n.safetensors | grep -o '"name":"[^"]*"'
