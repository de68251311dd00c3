# Where torchsnapshot finds the values of a snapshot, in JSON or YAML: outside of the folder is reported.
for name in json yaml alias key block broken good; do
    mkdir $name
done
printf '{"manifest": {"0/w": {"type": "Tensor", "location": "../../x"}}}' >json/.snapshot_metadata
printf 'manifest:\n  0/w:\n    type: Tensor\n    location: ../../x\n  0/v: {location: "/etc/x"}\n' >yaml/.snapshot_metadata
printf 'a: &a ../../x\nmanifest:\n  0/w:\n    location: *a\n' >alias/.snapshot_metadata
printf 'manifest:\n  0/w:\n    ? &k location\n    : &v x\n' >key/.snapshot_metadata
printf 'manifest:\n  0/w:\n    "loc\\x61tion": !!str >-\n      ../../x\n' >block/.snapshot_metadata
printf 'manifest:\n  0/w: {location: ../x\n' >broken/.snapshot_metadata
printf 'manifest:\n  0/w:\n    location: 0/w\n' >good/.snapshot_metadata
printf 'location: /etc/x\n' >good/other.yaml
ckpt scan json yaml alias key block broken good
