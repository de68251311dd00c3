# scan reads on where CPython's loaders do, even if a stricter reader would stop, or would read something else.
# scan_pickle NAME BYTES - writes BYTES to the file NAME and scans it
scan_pickle() { printf "$2" >"$1"; ckpt scan "$1"; echo "$?"; }
call='0\214\002os\214\006system\223\214\002id\205R.'
torch='\200\002ctorch.storage\n_load_from_bytes\n'
hidden="\\135\\000\\000\\000UEsDB$(printf '%066d' 0)0cos\\nsystem\\n(S\"id\"\\ntR."
# APPEND, APPENDS, SETITEM and ADDITEMS work on a bytearray, which has their methods
scan_pickle append.pkl "\\200\\005\\226\\003\\000\\000\\000\\000\\000\\000\\000abcK\\001a$call"
scan_pickle appends.pkl "\\200\\005\\226\\003\\000\\000\\000\\000\\000\\000\\000abc(K\\001K\\002e$call"
scan_pickle setitem.pkl "\\200\\005\\226\\003\\000\\000\\000\\000\\000\\000\\000abcK\\001K\\002s$call"
scan_pickle additems.pkl "\\200\\005\\226\\003\\000\\000\\000\\000\\000\\000\\000abc(K\\001\\220$call"
# pickle.py, which joblib uses, calls with any iterable as arguments
scan_pickle list.pkl 'ccollections\nOrderedDict\n]R0cos\nsystem\n(S"id"\nlR.'
scan_pickle number.pkl 'ccollections\nOrderedDict\nK\001R0cos\nsystem\n(S"id"\ntR.'
# the index after PUT and GET: int() accepts -0, the C unpickler stops at a NUL, and both refuse -1
scan_pickle minus.pkl 'I1\np-0\n0g-0\n0cos\nsystem\n(S"id"\ntR.'
scan_pickle nul.pkl 'I1\np0\000x\n0g0\n0cos\nsystem\n(S"id"\ntR.'
scan_pickle negative.pkl 'I1\np-1\n0cos\nsystem\n(S"id"\ntR.'
# the base64 text of an archive begins like a pickle: torch.load gets text that is no stream of torch.save
scan_pickle base64.pkl "${torch}B$hidden\\205R."
scan_pickle encoded.pkl "${torch}c_codecs\\nencode\\nX${hidden}X\\006\\000\\000\\000latin1\\206R\\205R."
scan_pickle import_alone.pkl "${torch}C\\021\\200\\002cmymodule\\nmain\\n\\205R."
# a known constructor calls a function that is its argument
scan_pickle codec.pkl '\200\002ctorch._tensor\n_rebuild_from_type_v2\n(c_codecs\nencode\nctorch\nTensor\n(X\001\000\000\000xX\003\000\000\000bz2t}tR.'
# pickles that call nothing, before one that does; an import alone, in a file named as a pickle, and text that looks like one
scan_pickle second.txt '(lp0\n.N.cos\nsystem\n(S"id"\ntR.'
scan_pickle import.pkl 'cmymodule\nmain\n'
scan_pickle words.txt 'cat\ndog\n'
# a tar whose first name is a stream of torch.save
printf '\200\002\212\nl\374\234F\371 j\250P\031.\200\002M\351\003.\200\002}.\200\002cos\nsystem\nU\002id\205R.' >name
{ cat name; head -c $((257 - $(wc -c <name))) /dev/zero; printf 'ustar\00000'; head -c 760 /dev/zero; } >polyglot.tar
ckpt scan polyglot.tar
# a pickle in the comment of an archive
cp corpus/torch/t26/tied.pt comment.pt
chmod u+w comment.pt
printf '\026' | dd of=comment.pt bs=1 seek=$(($(wc -c <comment.pt) - 2)) conv=notrunc 2>/dev/null
printf 'cos\nsystem\n(S"id"\ntR.\n' >>comment.pt
ckpt scan comment.pt
# a pickle after the end of a tar, after tensors and, compressed, after another pickle
echo text >text
tar -cf plain.tar --format=ustar text
{ cat plain.tar; printf 'cos\nsystem\n(S"id"\ntR.'; } >behind.tar
{ printf '5\000\000\000\000\000\000\000{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x'; printf 'cos\nsystem\n(S"id"\ntR.'; } >behind.safetensors
{ printf '\200\002}.\037\213'; printf 'cos\nsystem\n(S"id"\ntR.' | gzip -nc | tail -c +3; } >behind.pkl
ckpt scan plain.tar behind.tar behind.safetensors behind.pkl
# a member may be recognized by its name alone
printf 'cmymodule\nmain\n' >data.pkl
printf 'cat\ndog\n' >words
tar -cf import.tar --format=ustar data.pkl words
gzip -nc data.pkl >import.pkl
ckpt scan import.tar import.pkl
