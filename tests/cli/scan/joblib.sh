# scan skips arrays in a pickle stream of joblib 1.6.0, and reports those of a wrong size or with opcodes in their bytes.
base64 -d >genuine.joblib <<'X'
gASV2AAAAAAAAAB9lCiMAXeUjBNqb2JsaWIubnVtcHlfcGlja2xllIwRTnVtcHlBcnJheVdyYXBwZXKUk5QpgZR9lCiMCHN1YmNs
YXNzlIwFbnVtcHmUjAduZGFycmF5lJOUjAVzaGFwZZRLA4WUjAVvcmRlcpSMAUOUjAVkdHlwZZRoCIwFZHR5cGWUk5SMAmY4lImI
h5RSlChLA4wBPJROTk5K/////0r/////SwB0lGKMCmFsbG93X21tYXCUiIwbbnVtcHlfYXJyYXlfYWxpZ25tZW50X2J5dGVzlEsQ
dWIM////////////////AAAAAAAAAAAAAAAAAADwPwAAAAAAAABAlUMAAAAAAAAAjAFzlGgEKYGUfZQoaAdoCmgLSwKFlGgNaA5o
D2gRjAJVM5SJiIeUUpQoSwNoFU5OTksMSwRLCHSUYmgXiGgYSxB1Ygv//////////////2EAAABiAAAAAAAAAGMAAABkAAAAZQAA
AJVLAAAAAAAAAIwBb5RoBCmBlH2UKGgHaApoC0sChZRoDWgOaA9oEYwCTziUiYiHlFKUKEsDjAF8lE5OTkr/////Sv////9LP3SU
YmgXiWgYSxB1YoAFlZQAAAAAAAAAjBZudW1weS5fY29yZS5tdWx0aWFycmF5lIwMX3JlY29uc3RydWN0lJOUjAVudW1weZSMB25k
YXJyYXmUk5RLAIWUQwFilIeUUpQoSwFLAoWUaAOMBWR0eXBllJOUjAJPOJSJiIeUUpQoSwOMAXyUTk5OSv////9K/////0s/dJRi
iV2UKH2UjAF4lEsBc05ldJRiLpUIAAAAAAAAAIwBbpRLAXUu
X
# scan_joblib NAME DTYPE STATE SHAPE TAIL - scans a joblib file of one array; TAIL follows the opcode BUILD of its
# wrapper
scan_joblib()
{
    {
        printf '\200\002cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\201}(X\010\000\000\000subclasscnumpy\nndarray\n'
        printf "X\\005\\000\\000\\000shape$4X\\005\\000\\000\\000orderX\\001\\000\\000\\000CX\\005\\000\\000\\000dtype"
        printf "cnumpy\\ndtype\\n(X\\002\\000\\000\\000$2\\211\\210tR(K\\003X\\001\\000\\000\\000|NNN$3tbub$5"
    } >"$1.joblib"
    ckpt scan "$1.joblib"
    echo $?
}
evil='0cos\nsystem\nX\002\000\000\000id\205R.'
no_state='J\377\377\377\377J\377\377\377\377K\000'
ckpt scan genuine.joblib
echo $?
scan_joblib bytes u1 $no_state 'K\003\205' '\001\002\003.'
scan_joblib short u1 $no_state 'K\011\205' '\001\002\003.'
scan_joblib after u1 $no_state 'K\003\205' "\001\002\003$evil"
scan_joblib opcodes u1 $no_state 'K\030\205' "$evil.......0N."
scan_joblib text U1 'K\004K\004K\010' 'K\001\205' '\001\002\003\004.'
scan_joblib text_sizes U1 'K\010K\004K\010' 'K\001\205' "\001\000\000\000$evil"
scan_joblib objects O8 'J\377\377\377\377J\377\377\377\377K\077' 'K\001\205' "\200\002N$evil."
scan_joblib flags u1 'J\377\377\377\377J\377\377\377\377K\001' 'K\003\205' '\001\002\003.'
scan_joblib unclear u1 'NN' 'K\003\205' "$evil"
scan_joblib negative u1 $no_state 'J\377\377\377\377\205' '.'
scan_joblib huge u8 $no_state '(\212\010\377\377\377\377\377\377\377\177K\177t' '.'
scan_joblib computed u1 $no_state '(cmath\npow\n)Rt' '.'
