# salvage reads what is left of a TensorFlow checkpoint: without a data file, with one that was cut off, with a damaged index.
tensorflow=corpus/tensorflow
ckpt salvage $tensorflow/bad/data_short.index -o short.pt
ckpt ls short.pt
ckpt salvage $tensorflow/bad/data_missing.index -o missing.pt
ckpt salvage $tensorflow/bad/slice_hole.index -o hole.pt
ckpt salvage $tensorflow/bad/size_big.index -o size.pt
cp $tensorflow/v2/many.index $tensorflow/v2/many.data-00000-of-00001 .
printf 'damage' | dd of=many.index bs=1 seek=100 conv=notrunc 2>/dev/null
ckpt salvage many -o many.pt
ckpt ls many.pt | wc -l
rm -f part_shards.*
cp $tensorflow/v1/part_shards.ckpt-00000-of-00002 .
ckpt ls part_shards.ckpt-00000-of-00002
ckpt salvage part_shards.ckpt-00000-of-00002 -o part.pt
