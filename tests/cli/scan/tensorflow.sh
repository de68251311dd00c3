# scan accepts TensorFlow's tables, which hold names and numbers; damage and bytes outside of blocks are reported.
t=corpus/tensorflow
ckpt scan $t/v2/many.index $t/v1/names.ckpt $t/bad/index_flip.index
# a pickle before the table shifts the offsets in it
{ printf '\200\002cposix\nsystem\nX\002\000\000\000id\205R.'; cat $t/v2/names.index; } >both.index
ckpt scan both.index
