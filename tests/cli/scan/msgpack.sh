# scan reads MessagePack as flax writes it, finds pickles in its bytes, and reports malformed files.
msgpack() { printf "$2" >"$1.msgpack"; ckpt scan "$1.msgpack"; echo $?; }
array='\307\021\001\223\221\001\247float32\304\004\000\000\200\077'
pickle='\200\002cos\nsystem\nX\002\000\000\000id\205R.'
msgpack flax "\\202\\246params\\201\\246kernel$array\\244step\\315\\001\\000"
msgpack all "\\337\\000\\000\\000\\002\\241a\\334\\000\\012\\300\\302\\303\\177\\377\\312\\000\\000\\000\\000\\323\\000\\000\\000\\000\\000\\000\\000\\001\\331\\001x\\221\\200\\326\\377\\000\\000\\000\\000\\332\\000\\001b\\336\\000\\000"
msgpack bytes "\\201\\241x\\304\\027$pickle"
msgpack extension '\201\241x\325\011ab'
msgpack cut "\\202\\246params\\201\\246kernel$array\\244step\\315\\001"
msgpack behind "\\201\\246kernel${array}x"
msgpack count '\337\377\377\377\377\241a\001'
msgpack list "\\221$array"
cp data/train.pt train.msgpack
ckpt scan -q train.msgpack
