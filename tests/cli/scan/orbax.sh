# Records of OCDBT are data; values next to them, and a record that is damaged, are not looked into.
o=corpus/orbax
ckpt scan $o/ocdbt_zarr3
cat $o/kv/inline/manifest.ocdbt $o/kv/tree/manifest.ocdbt >two
ckpt scan two
cat $o/kv/inline/manifest.ocdbt $o/array/zarr_none/0.0 >more
ckpt scan more
ckpt scan $o/bad/node_flip/d
