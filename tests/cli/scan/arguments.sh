# Two harmful calls of one function with different arguments are two lines; the same call twice is one line, unless
# its arguments are abbreviated: then they may differ in what is not shown.
call() { printf 'cos\nsystem\nU%b%s\205R' "\\0$(printf %o ${#1})" "$1"; }
{ printf '\200\002('; call ls; call 'rm -rf x'; call ls; printf 't.'; } >calls.pkl
ckpt scan calls.pkl
blanks=$(printf '%225s')
{ printf '\200\002('; call "echo$blanks;ls"; call "echo$blanks;rm -rf x"; printf 't.'; } >long_calls.pkl
ckpt scan long_calls.pkl
