# The extreme numbers of small floats and of integers are decoded: smallest, 1, largest; infinity and NaN of
# the types that have them.
. "$TESTS/safetensors.sh"
# show_type DTYPE ELEMENTS SIZE BYTES - shows a tensor with these bytes
show_type()
{
    print_safetensors "{\"x\":{\"dtype\":\"$1\",\"shape\":[$2],\"data_offsets\":[0,$3]}}" "$4" >"$1.safetensors"
    ckpt show --json "$1.safetensors" x | grep -o '"data".*'
}
show_type F8_E4M3 8 8 '\000\001\070\176\177\200\376\377'
show_type F8_E5M2 8 8 '\001\074\173\174\175\200\373\374'
show_type F8_E4M3FNUZ 6 6 '\001\100\177\200\377\201'
show_type F8_E5M2FNUZ 6 6 '\001\100\177\200\377\201'
show_type F8_E8M0 4 4 '\000\177\376\377'
show_type F16 7 14 '\001\000\000\074\377\173\000\174\000\374\001\174\000\200'
show_type BF16 6 12 '\001\000\200\077\177\177\200\177\200\377\301\177'
show_type I64 2 16 '\000\000\000\000\000\000\000\200\377\377\377\377\377\377\377\177'
show_type U64 1 8 '\377\377\377\377\377\377\377\377'
show_type I8 2 2 '\200\177'
