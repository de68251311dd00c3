# scan accepts records of OCDBT as data; values next to them, and damaged records, are reported as not inspected.
orbax=corpus/orbax
ckpt scan $orbax/ocdbt_zarr3
cat $orbax/kv/inline/manifest.ocdbt $orbax/kv/tree/manifest.ocdbt >two
ckpt scan two
cat $orbax/kv/inline/manifest.ocdbt $orbax/array/zarr_none/0.0 >more
ckpt scan more
ckpt scan $orbax/bad/node_flip/d
