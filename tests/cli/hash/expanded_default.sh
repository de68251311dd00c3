# 456 bytes that show 4 GB are refused at once, and written by nobody; by what the file has or with a limit of one's own
# they are read, and one block of a view that repeats is gathered once.
base64 -d >big.pt <<'X'
UEsDBBQAAAAAAAAAIQDuMeNNjgAAAI4AAAAKAAAAYS9kYXRhLnBrbIACfVgBAAAAeGN0b3JjaC5fdXRpbHMKX3JlYnVpbGRfdGVuc29yX3YyCigo
WAcAAABzdG9yYWdlY3RvcmNoCkZsb2F0U3RvcmFnZQpYAQAAADBYAwAAAGNwdUsCdFFLAChKAMqaO3QoSgAAAAB0iWNjb2xsZWN0aW9ucwpPcmRl
cmVkRGljdAopUnRScy5QSwMEFAAAAAAAAAAhANGeZ1UCAAAAAgAAAAkAAABhL3ZlcnNpb24zClBLAwQUAAAAAAAAACEAaz4dhggAAAAIAAAACAAA
AGEvZGF0YS8wAADAPwAAEMBQSwECFAMUAAAAAAAAACEA7jHjTY4AAACOAAAACgAAAAAAAAAAAAAAgAEAAAAAYS9kYXRhLnBrbFBLAQIUAxQAAAAA
AAAAIQDRnmdVAgAAAAIAAAAJAAAAAAAAAAAAAACAAbYAAABhL3ZlcnNpb25QSwECFAMUAAAAAAAAACEAaz4dhggAAAAIAAAACAAAAAAAAAAAAAAA
gAHfAAAAYS9kYXRhLzBQSwUGAAAAAAMAAwClAAAADQEAAAAA
X
for c in hash 'stat --tsv' 'convert -o x.safetensors'; do
    ckpt $c big.pt
    echo $?
done
ls -A
ckpt stat --tsv --max-expanded 4GB big.pt | cut -f 1-5
