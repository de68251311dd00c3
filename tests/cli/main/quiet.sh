# With -q every command prints what was asked for and what is wrong, but no notices, totals, advice or reports.
show()
{
    ckpt "$@" >out 2>err
    echo "$* = $?: $(grep -c '' out) $(grep -c '' err)"
}
ckpt convert -q data/train.pt w.safetensors
head -c 20000 data/train.pt >cut.pt
for file in data/train.pt w.safetensors; do
    for command in ls hash stat info mem; do
        ckpt $command $file 2>/dev/null >loud
        ckpt $command -q $file >quiet 2>&1
        cmp loud quiet && echo "$command $file"
    done
done
ckpt show -q data/train.pt epoch
ckpt meta -q w.safetensors
# nothing is wrong
for command in verify scan; do show $command -q data/train.pt w.safetensors; done
show doctor -q w.safetensors
# something is
show doctor -q data/train.pt
show doctor -q cut.pt
show verify -q cut.pt w.safetensors
for command in ls hash stat info mem; do show $command -q cut.pt; done
show diff -q data/train.pt w.safetensors
show diff -q data/train.pt data/train.pt
# what was written
show convert -q data/train.pt c.safetensors
show strip -q --auto data/train.pt -o s.pt
show strip -q --auto --check data/train.pt
show strip -q --auto --dry-run data/train.pt
show add -q x. data/train.pt -o a.pt
show rename -q -s 'fc=>head' data/train.pt -o r.pt
show sanitize -q data/train.pt -o n.pt
show salvage -q data/train.pt -o g.pt
show salvage -q cut.pt -o h.pt
show strip -q --auto cut.pt -o i.pt
show meta -q w.safetensors a=b -o m.safetensors
