# Two harmful calls of one function with different arguments are two lines; the same call twice is one line.
call() { printf 'cos\nsystem\nU%b%s\205R' "\\0$(printf %o ${#1})" "$1"; }
{ printf '\200\002('; call ls; call 'rm -rf x'; call ls; printf 't.'; } >calls.pkl
ckpt scan calls.pkl
