# In a pipe, lines about several files begin with the file name, as those of grep do; -H and --no-filename override this.
cp data/train.pt a.pt; cp corpus/torch/t26/zero_dim.pt 'b c.pt'
for c in 'ls --allow-none -g *fc.b* -g s' 'ls --tsv --allow-none -g *fc.b* -g s' 'ls --values --allow-none -g epoch -g s' 'ls --depth 1' 'ls --tree --depth 1' 'info' 'hash' 'hash -t' \
    'stat --allow-none -g s -g *fc.b*' 'stat --tsv --allow-none -g s -g *fc.b*' 'doctor' 'verify'; do
    set -f
    echo "== $c"
    ckpt $c a.pt 'b c.pt' >out
    grep -v '^a\.pt:\|^b c\.pt:\|^a\.pt	\|^b c\.pt	' out | grep -v '^[0-9a-f]*  \(a\|b c\).pt$' && echo "^ without a name"
    head -n 2 out | cut -c 1-70; wc -l <out
    case $c in verify) continue ;; esac
    ckpt $c --no-filename a.pt 'b c.pt' | cut -c 1-70 | head -n 2
    ckpt $c -H 'b c.pt' | cut -c 1-70 | head -n 2
done
ckpt ls --json -H a.pt 'b c.pt' | cut -c 1-40
# An empty name is shown as ''.
for command in ls 'ls --json' 'diff data/train.pt' doctor; do ckpt $command '' 2>&1 || :; done
