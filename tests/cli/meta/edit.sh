# meta prints, sets and removes texts of a safetensors header, and changes nothing else in the file.
. "$TESTS/safetensors.sh"
header() { tail -c +9 "$1" | head -n 1; echo; }
print_safetensors '{"z":["U8",[1],[1,2]],"__metadata__" : {"format":"pt","by":"m\u00e9"}, "a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}}               ' xy >a.safetensors
cp a.safetensors kept
ckpt meta a.safetensors
ckpt meta --json a.safetensors
echo -- a copy
ckpt meta a.safetensors by=you 'new=a "b" = c' --unset format -o b.safetensors; echo $?
header b.safetensors; tail -c 2 b.safetensors; echo
ckpt meta b.safetensors
ckpt diff --tensors-only a.safetensors b.safetensors 2>/dev/null || ckpt diff a.safetensors b.safetensors
ckpt meta a.safetensors by=you -o b.safetensors; echo $?
ckpt meta -f a.safetensors --unset by --unset format -o b.safetensors; header b.safetensors
ckpt meta b.safetensors; ckpt meta --json b.safetensors
ckpt meta a.safetensors x=y -o - 2>report | tail -c 2; echo; cat report
cmp a.safetensors kept
echo -- in place
ckpt meta -n a.safetensors by=m -i --json; cmp a.safetensors kept
ckpt meta a.safetensors by=m -i --json; header a.safetensors
ckpt meta a.safetensors by=a_long_text_for_which_there_is_no_room -i; echo $?
ckpt meta a.safetensors b2=a -i; ckpt ls a.safetensors
ckpt meta a.safetensors --unset b2 -i; ckpt ls a.safetensors
# t is a second name of the tensor a: t=b makes it one of b, t=c a mere text. new=b makes a second name. The other three
# do not: t is no tensor, format is never a second name, and a is a tensor itself.
echo '-- the number of tensors before and after each change'
print_safetensors '{"a":["U8",[1],[0,1]],"b":["U8",[1],[1,2]],"__metadata__":{"t":"a"}}' xy >t.safetensors
for change in t=b t=c new=b new=t format=b a=b; do
    ckpt meta -q t.safetensors "$change" -fo u.safetensors; ckpt meta -n t.safetensors "$change" -o u.safetensors
    echo $(ckpt ls t.safetensors | wc -l) $(ckpt ls u.safetensors | wc -l)
done
ckpt meta --json t.safetensors new=b -fo u.safetensors
ls
echo '-- --check and --strict'
ckpt meta --check a.safetensors by=m; echo $?
ckpt meta --check a.safetensors by=n; echo $?
ckpt meta --check a.safetensors by=a_long_text_for_which_there_is_no_room; echo $?
ckpt meta -n a.safetensors by=a_long_text_for_which_there_is_no_room; echo $?
ckpt meta --check -i a.safetensors by=a_long_text_for_which_there_is_no_room; echo $?
ckpt meta --check a.safetensors --unset none; echo $?
ckpt meta --strict a.safetensors --unset none -i; echo $?
ckpt meta -q a.safetensors by=n -i
# FILE comes first
ckpt meta by=n a.safetensors; echo $?
ckpt meta by=n 'to=two words' a.safetensors -q -i; echo $?
echo -- no metadata yet
print_safetensors '{"a":["U8",[1],[0,1]]}' x >c.safetensors; ckpt meta c.safetensors; ckpt meta c.safetensors k=v -o d.safetensors; header d.safetensors
print_safetensors '{}' '' >e.safetensors; ckpt meta e.safetensors k=v -o f.safetensors; header f.safetensors; ckpt meta f.safetensors
