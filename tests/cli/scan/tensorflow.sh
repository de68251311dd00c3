# scan accepts TensorFlow's tables, which hold names and numbers; damage and bytes outside of blocks are reported.
tensorflow=corpus/tensorflow
ckpt scan $tensorflow/v2/many.index $tensorflow/v1/names.ckpt $tensorflow/bad/index_flip.index
# a pickle before the table shifts the offsets in it
{ printf '\200\002cposix\nsystem\nX\002\000\000\000id\205R.'; cat $tensorflow/v2/names.index; } >both.index
ckpt scan both.index
