# What --part refuses: parts missing, other options or inputs, another number of parts, edited records; and what it is not
# for. A part that was recorded reads nothing when it is run again.
ids() { sed 's/[0-9a-f]\{32\}/ID/g'; }
cp data/train.pt in.pt
ckpt hash in.pt --part 0/3 -o work
ckpt hash in.pt --part 2/3 -o work
echo 'parts missing, another command'
ckpt hash in.pt --part all -o work; echo $?
ckpt parts work | sed 's/ *[0-9]* s ago//'; ckpt parts work --json | sed 's/"updated":[0-9]*/"updated":0/g' | ids
ckpt stat in.pt --part all -o work
ckpt stat in.pt --part 0/3 -o work 2>&1 | ids
ckpt merge-parts work
echo 'another plan'
ckpt hash in.pt --part 1/4 -o work 2>&1 | ids
ckpt hash in.pt --part 1/3 -o work --xxh3 2>&1 | ids
touch -d 2020-01-01 in.pt
ckpt hash in.pt --part 1/3 -o work 2>&1 | ids
ckpt hash in.pt --part all -o work 2>&1 | ids
touch -r data/train.pt in.pt
ckpt parts work --clean
echo 'edited records'
for i in 0 1; do ckpt hash -q in.pt --part $i/2 -o work; done
cp work/.ckpt-*/part-0001-of-0002.results kept
record=$(echo work/.ckpt-*/part-0001-of-0002.results)
# edit_record OFFSET - changes the byte of the record at OFFSET, counted from its end if that is negative
edit_record()
{
    at=$1
    [ "$at" -ge 0 ] || at=$(($(wc -c <kept) + at))
    cat kept >"$record"
    printf '\377' | dd of="$record" bs=1 seek="$at" conv=notrunc 2>/dev/null
    ckpt hash in.pt --part all -o work 2>&1 | ids
}
for offset in 0 12 16 24 40 64 100 -20 -1; do edit_record $offset; done
ckpt parts work 2>&1 | ids
cp work/.ckpt-*/part-0000-of-0002.results "$record"
ckpt hash in.pt --part all -o work 2>&1 | ids
ckpt hash in.pt --part 1/2 -o work
ckpt hash in.pt --part all -o work >all && ckpt hash in.pt | cmp - all && echo 'run again: same'
ckpt parts work --clean
echo 'a part that fails'
ckpt convert -q --root state_dict data/train.pt damaged.pt
offset=$(ckpt ls --json damaged.pt | tr '{' '\n' | grep fc.bias | sed 's/.*"file_offset":\([0-9]*\).*/\1/')
printf XYZ | dd of=damaged.pt bs=1 seek="$offset" conv=notrunc 2>/dev/null
for i in 0 1; do ckpt hash -q damaged.pt --part $i/2 -o work 2>/dev/null; echo $?; done
ckpt parts work | sed 's/ *[0-9]* s ago//'
echo 'usage'
ckpt hash in.pt --part 1/2
ckpt hash in.pt -o work
ckpt hash in.pt --part 2/2 -o work
ckpt hash in.pt data/train.pt --part 0/2 -o work
ckpt hash -r . --part 0/2 -o work
ckpt hash - --part 0/2 -o work <in.pt
ckpt hash in.pt --part 0/2 -o work --file-sha256
ckpt hash in.pt --part all -o none
ckpt diff in.pt damaged.pt --keys-only --part 0/2 -o work
ckpt diff in.pt --part 0/2 -o work
