# For commands and options of other tools the error suggests ours, and for a misspelling the nearest name.
for line in 'list m.pt' 'inspect m.pt' 'compare a.pt b.pt' 'merge folder m.safetensors' 'split a.pt b.pt' 'cast a.pt b.pt' \
    'keys m.pt' 'tree m.pt' 'cat m.pt fc.weight' 'version' '-v' 'stirp m.pt' 'comapre' 'list -l m.pt' \
    'convert --dtype f16 a b' 'ls --sort size m' 'strip --prefix p m' 'diff --tolerance 1 a b' 'convert --to pt data/train.pt x.bin' \
    'convert --to .safetensor data/train.pt x.bin' 'convert --hepl' 'ls --order=siez m' 'ls --overwrite m' 'strip --overwrite m' xyzzy; do
    ckpt $line 2>&1
    [ $? = 2 ] || echo "exit $?"
done
ckpt list --json m.pt 2>&1
cp data/train.pt 'my m.pt'
ckpt 'my m.pt' 2>&1
# A misspelled dtype or optimizer is suggested, too; the glob of a dtype stays.
for line in 'convert --cast flaot16 data/train.pt x.npz' 'convert --cast *.bias=bf61 data/train.pt x.npz' \
    'hash --cast fp33 data/train.pt' 'convert --cast xyzzy data/train.pt x.npz' 'mem --optimizer addam data/train.pt' \
    'mem --optimizer AdamW data/train.pt' 'mem --optimizer xyzzy data/train.pt'; do ckpt $line 2>&1; done
# Each answer in the table of commands names a command that exists.
sed -n 's/^GUESS_COMMAND("\([^"]*\)".*/\1/p' "$TESTS/../../cli/guesses.def" | while read -r typed; do
    answer=$(ckpt "$typed" 2>&1 | sed -n 's/^hint: //p')
    (eval "${answer%% [A-Z]*} --help") >messages 2>&1 </dev/null || echo "$typed: $answer: $(cat messages)"
done
# Each entry in the table of options is suggested for each command that it names.
sed -n 's/^GUESS_OPTION("\([a-z|]*\)", "\([^"]*\)".*/\1 \2/p' "$TESTS/../../cli/guesses.def" | while read -r commands typed; do
    for command in $(echo "$commands" | tr '|' ' '); do
        ckpt "$command" "--$typed" m 2>messages || :
        grep -q "unknown option '--$typed'; use" messages || echo "$command --$typed: $(cat messages)"
    done
done
# A word that names no file is not put into the answer as the input.
ckpt find fc data/train.pt 2>&1
ckpt cast bf16 data/train.pt 2>&1
ckpt drop optimizer data/train.pt 2>&1
