# The command that doctor advises works for any file name, and never writes to a name that exists.
cure()
{
    ckpt doctor "$1" >said
    grep -v note: said | head -n 3
    LC_ALL=C tr -d '\n\040-\176' <said | od -An -c
    sed -n 's/^    fix: //p' said | head -n 1 >fix
    bash ./fix >told 2>&1 && echo ran || cat told
}
command -v bash >/dev/null || { echo "no bash"; exit 77; }
cp data/train.pt fixed.pt
# the outputs are fixed-2.pt and fixed-3.pt, then fixed-5.pt, because a link to nowhere is a taken name, too
cure fixed.pt
cure fixed.pt
ln -s nowhere fixed-4.pt
cure fixed.pt
ls -1 fixed*
rm fixed*
# names with control characters before digits, quotes, a bidirectional override, bytes that are not UTF-8
for name in '\033]0;x\007.pt' 'a\n1b.pt' "it's\\\\\\t.pt" '\342\200\256tp.pt' '\377\0610.pt' '$(touch ran);`id`.pt' '*.pt'; do
    name=$(printf "$name")
    cp data/train.pt "$name"
    cure "$name"
    rm "$name" fixed.pt
done
cp data/train.pt -- -x.pt
ckpt doctor -- -x.pt | sed -n 's/^    fix: //p'
sh -c "$(ckpt doctor -- -x.pt | sed -n '3s/^    fix: //p')"
ls
