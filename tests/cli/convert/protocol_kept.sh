# A pickle is written in protocol 2; but one of protocol 3 or later is written in protocol 3 if it has a name that
# Python 3 would take for one of Python 2, and translate, in protocol 2.
# print_legacy MAIN - prints a legacy stream whose main pickle is MAIN, and whose storage 0 has 2 floats
print_legacy()
{
    printf '\200\002\212\012l\374\234F\371 j\250P\031.\200\002M\351\003.\200\002}.'
    printf "$1"
    printf '\200\002]X\001\000\000\0000a.\002\000\000\000\000\000\000\000\000\000\200?\000\000\000@'
}
w='X\001\000\000\000wctorch._utils\n_rebuild_tensor_v2\n((X\007\000\000\000storagectorch\nFloatStorage\nX\001\000\000\0000X\003\000\000\000cpuK\002NtQK\000K\002\205K\001\205\211ccollections\nOrderedDict\n)RtR'
set='X\001\000\000\000s\217(K\001\220'
thing='X\001\000\000\000tccommands\nThing\n)\201'
# print_names FILE - prints the protocol of the pickle in FILE, and the modules it names
print_names() { od -An -tx1 -j64 -N2 "$1"; grep -aoE '(commands|subprocess|__builtin__|builtins)$' "$1"; }
print_legacy "\200\004}(${w}${set}${thing}u." >translated.pt
ckpt strip --allow-none no.such. translated.pt -qfo out.pt; print_names out.pt
ckpt add a.longer.prefix. -iq out.pt
ckpt ls out.pt
grep -aoE '(commands|subprocess|__builtin__|builtins)$' out.pt | sort | uniq -c | sed 's/^ *//'
# in a pickle of protocol 2 the same name means the module of Python 2: it is written in protocol 2
print_legacy "\200\002}(${w}${thing}u." >python2.pt
ckpt strip --allow-none no.such. python2.pt -qfo out.pt; print_names out.pt
# a pickle without such a name is written in protocol 2
print_legacy "\200\004}(${w}${set}u." >untranslated.pt
ckpt strip --allow-none no.such. untranslated.pt -qfo out.pt; print_names out.pt
