# scan accepts records of OCDBT as data; values next to them, and damaged records, are reported as not inspected.
o=corpus/orbax
ckpt scan $o/ocdbt_zarr3
cat $o/kv/inline/manifest.ocdbt $o/kv/tree/manifest.ocdbt >two
ckpt scan two
cat $o/kv/inline/manifest.ocdbt $o/array/zarr_none/0.0 >more
ckpt scan more
ckpt scan $o/bad/node_flip/d
