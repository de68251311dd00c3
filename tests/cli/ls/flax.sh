# A .msgpack that claims a value of 4 GB is refused before the value is read into memory, even if size_t has 32 bits.
printf '\201\241a\306\377\377\377\377' >f.msgpack
truncate -s 4294967303 f.msgpack
ckpt ls f.msgpack
