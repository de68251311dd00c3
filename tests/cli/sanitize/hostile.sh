# sanitize never writes a call, whether its result is a value, is popped from the stack, is a key or is in a state.
pickle() { printf "$1" >a.pkl; rm -f o.pt; ckpt sanitize a.pkl -o o.pt; echo $?; [ -e o.pt ] && ckpt scan o.pt && ckpt ls --values o.pt; }
# {'a': 1, 'b': os.system('id')}
pickle '\200\002}(X\001\000\000\000aK\001X\001\000\000\000bcos\nsystem\nX\002\000\000\000id\205Ru.'
# os.system('id') popped from the stack, then {'a': 1}
pickle '\200\002cos\nsystem\nX\002\000\000\000id\205R0}X\001\000\000\000aK\001s.'
# os.system('id') and nothing else
pickle '\200\002cos\nsystem\nX\002\000\000\000id\205R.'
# [1, os.system, {os.system('id'): 2}, set([3, os.system('id')])]
pickle '\200\002](K\001cos\nsystem\n}cos\nsystem\nX\002\000\000\000id\205RK\002sc__builtin__\nset\n](K\003cos\nsystem\nX\002\000\000\000id\205Re\205Re.'
# OrderedDict() with the state {'a': os.system('id')}
pickle '\200\002ccollections\nOrderedDict\n)R}X\001\000\000\000acos\nsystem\nX\002\000\000\000id\205Rsb.'
