# --fail-on sets the level from which scan exits 1; --all lists harmless calls, too.
printf '\200\002cmy\nThing\n)R.' >w.pkl
for level in error warning note; do ckpt scan -q --fail-on $level w.pkl >out; echo "$level $?"; done
ckpt scan --fail-on never w.pkl
printf '\200\002ccollections\nOrderedDict\n)Rccollections\nOrderedDict\n]\205R\206.' >l.pkl
ckpt scan --all l.pkl
