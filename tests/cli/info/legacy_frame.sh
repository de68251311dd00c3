# A legacy stream is five pickles, all of which torch.load runs: an opcode or name that weights_only refuses counts in
# each of them.
magic='\212\012l\374\234F\371 j\250P\031.'
print_main() { printf '\200\002}X\001\000\000\000aK\001s.'; }
print_keys() { printf '\200\002].'; }
{ printf "\200\002$magic"; printf '\200\002M\351\003.\200\002}.'; print_main; print_keys; } >harmless.pt
{ printf "\200\004\225\015\000\000\000\000\000\000\000\212\012l\374\234F\371 j\250P\031."; printf '\200\002M\351\003.\200\002}.'
  print_main; print_keys; } >magic.pt
{ printf "\200\002$magic"; printf '\200\002I1001\n.\200\002}.'; print_main; print_keys; } >version.pt
{ printf "\200\002$magic"; printf '\200\002M\351\003.\200\002}X\001\000\000\000acos\nsystem\ns.'; print_main; print_keys; } >system.pt
{ printf "\200\002$magic"; printf '\200\002M\351\003.\200\002}.'; print_main; printf '\200\002(l.'; } >keys.pt
for f in harmless magic version system keys; do
    ckpt info $f.pt | grep '^load' || echo "load         $f"
done
