# a file of 4 GB, nearly all of it a hole: a value that says so is not read into memory, also where 32 bits hold sizes
printf '\201\241a\306\377\377\377\377' >f.msgpack
truncate -s 4294967303 f.msgpack
ckpt ls f.msgpack
