# A .msgpack that claims a value of 4 GB is refused before the value is read into memory, even if size_t has 32 bits.
# a map of one pair: the key "a" and a bin 32 of 4294967295 bytes; the file is as long as that needs
printf '\201\241a\306\377\377\377\377' >f.msgpack
truncate -s 4294967303 f.msgpack
ckpt ls f.msgpack
