# `param` takes the first value that config.json, or else params.json, has.
. "$TESTS/edit_input.sh"
make_layers
try()
{
    echo "# $1"
    shift
    ckpt edit layers.safetensors -n --json "$@" -e 'keep s' 2>&1 |
        sed 's/.*\("parameters":\[[^]]*\]\).*/\1/; s/{"schema":"ckpt.rules.*/none/'
}
echo '{"heads": 8, "none": null, "size": 64, "yes": true, "no": false, "name": "x", "big": 2147483647}' >config.json
echo '{"own": 3}' >params.json
try 'a key, a number, a default' -e 'param a = heads' -e 'param b = 7' -e 'param c = missing | none | 5'
try 'computed' -e 'param a = heads' -e 'param b = size / $a' -e 'param c = $a * 2' -e 'param d = missing / 2 | 2 * missing | 9'
try 'conditions' -e 'param a = 1 if no | 2 if missing | 3 if none | 4 if yes | 5'
try 'given' -D a=-5 -e 'param a = missing'
try 'comments and blanks' -e 'param   a =  heads  |  3   # the heads'
try 'no remainder' -e 'param a = heads / 3'
try 'zero' -e 'param a = heads / 0'
try 'overflow' -e 'param a = big * big'
try 'text' -e 'param a = name'
try 'condition that is no truth' -e 'param a = 1 if size'
try 'nowhere' -e 'param a = missing | none | absent / heads'
try 'not defined' -e 'param a = $b'
try 'twice' -e 'param a = 1' -e 'param a = 2'
try 'names' -e 'param a-b = 1' -e 'param = 1'
try 'no value' -e 'param a ='
try 'no equals' -e 'param a 3'
try 'more' -e 'param a = 3 4'
try 'after a bar' -e 'param a = 3 |'
try 'used' -e 'param a = heads' -e 'reshape cube [$a]' -e 'reshape cube [$b]'
rm config.json
try 'params.json' -e 'param a = heads | own'
rm params.json
try 'no file' -e 'param a = heads | own'
mkdir config.json
try 'a folder' -e 'param a = heads | 6'
# from standard input there is no file next to it
ckpt edit - -n -e 'param a = heads' <layers.safetensors
