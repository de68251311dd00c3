# safetensors.sh - makes safetensors files. Sourced.
# print_safetensors HEADER BYTES - prints a file: the length of HEADER in 8 bytes, HEADER, then BYTES, in which printf
# replaces escapes
print_safetensors()
{
    header_length=$(printf %s "$1" | wc -c)
    printf "\\$(printf %o $((header_length % 256)))\\$(printf %o $((header_length / 256)))\\0\\0\\0\\0\\0\\0"
    printf %s "$1"
    # shellcheck disable=SC2059
    printf "$2"
}
