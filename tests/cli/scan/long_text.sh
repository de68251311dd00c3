# A long text in the arguments of a call is cut between characters, and the report marks it as cut.
le32() { printf "\\$(printf %o $(($1 % 256)))\\$(printf %o $(($1 / 256)))\\0\\0"; }
scan_call() # scan_call TEXT - scans a call os.system(TEXT)
{
    printf '%s' "$1" >text
    { printf '\200\002cos\nsystem\nX'; le32 "$(wc -c <text)"; cat text; printf '\205R.'; } >a.pkl
    echo "$(ckpt scan a.pkl | grep -c "…)$"), $(ckpt scan a.pkl | grep -c '\\x')," \
        "$(ckpt scan --json a.pkl | grep -c '"args_cut":true'), $(ckpt scan --json a.pkl | grep -c '�')"
}
for character in é 語 𝄞; do
    many=$(yes "$character" | head -n 600 | tr -d '\n')
    for before in '' a aa aaa; do
        scan_call "$before$many"
    done
done
thousand=$(yes a | head -n 1000 | tr -d '\n')
scan_call "$thousand"
scan_call "${thousand}b"
