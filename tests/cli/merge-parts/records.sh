# Merging refuses records that do not agree, files of a wrong size and, with --verify, bytes that changed. It moves
# nothing then.
. "$TESTS/parts_input.sh"
make_input >in.safetensors
for i in 0 1 2; do ckpt convert -q --no-sync in.safetensors out.safetensors --part $i/3; done
work=$(echo .ckpt-*)
cp -r "$work" saved
record=$work/part-0001-of-0003.json

# merge WHAT - tries to merge after WHAT was done to the records, and restores them
merge()
{
    echo "$1:"
    ckpt merge-parts $2 out.safetensors 2>&1 | ids
    ls out.safetensors 2>/dev/null
    rm -rf "$work"
    cp -r saved "$work"
}
sed -i 's/\[0,8388608,/[0,8388607,/' "$record"
merge 'a range that begins earlier'
sed -i 's/\[0,8388608,/[0,8388609,/' "$record"
merge 'a range that begins later'
sed -i -z 's/,\n\[0,8388608,[^]]*\]//' "$record"
merge 'a range left out'
sed -i 's/"part":1/"part":2/' "$record"
merge 'the record of another part'
sed -i 's/"plan_id":"./"plan_id":"x/' "$record"
merge 'an id that is none'
sed -i 's/"plan_id":"..../"plan_id":"0123/' "$record"
merge 'another plan'
sed -i 's/"done":true/"done":false/' "$record"
merge 'a part that is not done'
rm "$record"
merge 'a part without a record'
head -c 100 "saved/${record##*/}" >"$record"
merge 'a record cut off'
echo '{}' >"$record"
merge 'an empty record'
sed -i 's/\[0,8388608,/[7,8388608,/' "$record"
merge 'a file that does not exist'
sed -i 's/\[0,8388608,/[0,18446744073709551617,/' "$record"
merge 'a number beyond 64 bits'
sed -i 's/"plan_id":"..../"plan_id":"0123/' "$work/plan.json"
merge 'a plan of another id'
sed -i 's/"out.safetensors",/"..\/out.safetensors",/' "$work/plan.json"
merge 'an output in another folder'
truncate -s 19000000 "$work/out.safetensors"
merge 'a file that is too short'
rm "$work/out.safetensors"
merge 'no file'
printf x | dd of="$work/out.safetensors" bs=1 seek=9000000 conv=notrunc 2>/dev/null
merge 'a byte that changed' --verify
truncate -s 9000000 "$work/out.safetensors"
truncate -s "$(wc -c <saved/out.safetensors)" "$work/out.safetensors"
merge 'zeros' --verify
echo old >out.safetensors
merge 'an output that exists'
rm out.safetensors
merge 'nothing' --verify
cmp in.safetensors out.safetensors && echo same
ckpt merge-parts nowhere/out.safetensors; echo $?
