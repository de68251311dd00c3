# A rule takes time linear in the length of a name; one that would take longer to replace all matches is given up.
. "$TESTS/safetensors.sh"
# print_named N - prints a safetensors file with a tensor whose name has N letters
print_named()
{
    { printf '{"'; head -c "$1" /dev/zero | tr '\0' a; printf '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'; } >header
    n=$(wc -c <header)
    printf "$(printf '\\%03o' $((n % 256)) $((n / 256 % 256)) $((n / 65536)))\0\0\0\0\0"
    cat header
    printf x
}
print_named 100000 >long.safetensors
print_named 20000 >shorter.safetensors # about 0.3 s up to where it is given up, 15 times as much if emulated
ulimit -t 20
ckpt rename --allow-none -qs 'a+b=>x' long.safetensors -o out.safetensors; echo $?
ckpt rename -qs '(a|aa)+$=>x' long.safetensors -fo out.safetensors; echo $?
ckpt ls out.safetensors
ckpt rename -qs 'a|a*b=>x' shorter.safetensors -fo out.safetensors 2>message; echo $?; cut -c 1-75 message
# '.' is a character, not a byte.
printf '{"x\303\274y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' >header
print_safetensors "$(cat header)" x >u.safetensors
ckpt rename -qs 'x.=>' u.safetensors -o y.safetensors; ckpt ls y.safetensors
