# 456 bytes whose view shows 4 GB are refused at once, and nothing is written (stat/expanded raises the limit).
. "$TESTS/view_4gb.sh"
for c in hash 'stat --tsv' 'convert -o x.safetensors'; do
    ckpt $c big.pt
    echo $?
done
ls -A
