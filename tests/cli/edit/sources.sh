# Rules come from several files and standard input, whatever editor wrote them.
. "$TESTS/edit_input.sh"
make_layers
edit() { ckpt edit layers.safetensors -n "$@"; }
printf '\tdrop\ts\t;\tdrop \\\n\tcube\t# tabs\t\n' >tabs.txt
printf 'drop h.0.q\r\n\r\ndrop h.0.k' >last.txt
edit -e 'drop h.1.q' --rules tabs.txt --rules last.txt
edit --rules last.txt --rules last.txt
echo 'drop e.?.w' | edit --rules -
echo 'dro s' | edit --rules -
ckpt edit - -n --rules - <layers.safetensors
edit --rules .
edit --rules none.txt
printf 'drop \\\n  h.0.q \\\n  h.0.k' >comma.txt
edit --rules comma.txt
# a name, a list and a file of any length
{
    printf 'drop s'
    yes ', s' | head -n 20000 | tr -d '\n'
} >long.txt
edit -q --rules long.txt && echo long
yes 'drop? nothing' | head -n 20000 >many.txt
edit -q --rules many.txt && echo many
head -c 2000 /dev/zero | tr '\0' x | sed 's/^/drop /' | edit --rules -
