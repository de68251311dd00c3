# scan gives each verdict: for names of all kinds, calls of calls, changes of imported objects, truncated streams.
pkl() { printf "$2" >"$1.pkl"; ckpt scan "$1.pkl"; echo "$?"; }
pkl data '\200\002}q\000(X\001\000\000\000aK\001X\001\000\000\000bG?\360\000\000\000\000\000\000u.'
pkl listed '\200\002ccollections\nOrderedDict\n)R.'
pkl unknown '\200\002cmy.module\nThing\n)\201}b.'
pkl exec 'cos\nsystem\n(S"id"\ntR.'
pkl python2 'c__builtin__\neval\n(S"1"\ntR0(ccommands\ngetoutput\nS"id"\noiurllib\nurlopen\n.'
pkl curried '\200\002cfunctools\npartial\ncos\nsystem\n\205R(X\002\000\000\000idtR.'
pkl computed '\200\004\214\002osc_x\nf\n)R\223.'
pkl extension '\200\002\202\007)R.'
pkl dotted '\200\004\214\013collections\214\032OrderedDict.__reduce__.__x\223.'
pkl changed '\200\002csys\nmodules\nX\001\000\000\000ag0\n'
pkl patched '\200\004\214\003sys\214\007modules\223\214\001aK\001s.'
# objects that training keeps with tensors, none of which can run code; a factory is judged by its own name
pkl plain '\200\002(cargparse\nNamespace\n)\201}X\002\000\000\000lrK\001sbccollections\ndefaultdict\nc__builtin__\nlist\n\205Rcdatetime\ntimedelta\nK\001\205Rcpathlib\nWindowsPath\nX\001\000\000\000a\205Rt.'
pkl factory '\200\002ccollections\ndefaultdict\ncos\ngetcwd\n\205R.'
pkl discarded '\200\002cos\nsystem\nX\002\000\000\000id\205R0N.'
pkl broken '\200\002cos\nsystem\nX\002\000\000\000id\205R\377'
pkl codec '\200\002c_codecs\nencode\nX\001\000\000\000aX\003\000\000\000hex\206R.'
pkl rebuilt '\200\002ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\nctorch\nTensor\n)NtR.'
# Source code and text that begins like a pickle are accepted as text, unless they make a call if read as a pickle.
printf 'cmy_mod\nx\n' >import.txt
printf 'import os\nos.system("id")\n' >run.py
printf 'cmy_mod\nx\n)R' >call.pkl
ckpt scan import.txt run.py call.pkl
echo $?
