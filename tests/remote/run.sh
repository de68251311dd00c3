#!/bin/sh
# remote/run.sh - tests remote reading: counts the requests that a scripted server (server.c) and nginx get and the
# bytes that they send, and checks what ckpt makes of their replies and whom it sends secrets.
#
# A run of ckpt has a tag, a word that is in the URL: the server ignores it, but writes it to its log. First many runs
# are started at the same time; when they have ended, their outputs and the log are checked.
set -u
B=${B:-build}
CKPT=${CKPT:-$PWD/$B/ckpt}
part=remote
. tests/check.sh
. tests/remote/servers.sh
trap 'stop_servers; rm -rf "$tmp"' EXIT
mkckpt=$B/tests/bench/mkckpt
runner=$B/tests/bench/runner
examples=$PWD/tests/data/examples
corpus=$PWD/tests/corpus
files=$tmp/files runs=$tmp/runs log=$tmp/log.tsv
mkdir "$files" "$runs" "$tmp/home"

# Nothing of the user's settings is used. Secrets that must not be seen anywhere have "Secret" or "Token" in them.
unset http_proxy https_proxy HTTPS_PROXY all_proxy ALL_PROXY no_proxy NO_PROXY CKPT_OFFLINE HF_TOKEN HF_TOKEN_PATH \
    HF_HOME HF_ENDPOINT HF_HUB_DISABLE_IMPLICIT_TOKEN HUGGING_FACE_HUB_TOKEN AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY \
    AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL XDG_CACHE_HOME NETRC
export HOME="$tmp/home"
token=hf_TestTokenOfTheFakeHub
s3_secret=testSecretKey/with+signs
s3_session=testSessionToken/with+signs==

# Headers that only the first origin may get. nginx adds X-Other-Origin.
secret_tls_headers='	authorization:\|	cookie:\|	x-[abcd][a-z0-9-]*:\|	proxy-[a-z-]*:\|	referer:\|: .*hf_'
secret_headers="$secret_tls_headers\|	x-[a-z0-9-]*:"

# ------------------------------------------------------------------- runs

with=     # variables of the environment for the next runs
pids= nrunning=0 slow_pids=

# run TAG ARG… - starts `ckpt ARG…`. What it prints is $runs/TAG.out and TAG.err, its exit code is in TAG.exit
run()
{
    run_tag=$1
    shift
    # shellcheck disable=SC2086
    {
        env $with timeout -k 1 40 "$CKPT" "$@" >"$runs/$run_tag.out" 2>"$runs/$run_tag.err" 9>&- 8<&-
        echo $? >"$runs/$run_tag.exit"
    } &
    case $run_tag in
    slow-*)
        slow_pids="$slow_pids $!"
        return
        ;;
    esac
    pids="$pids $!" nrunning=$((nrunning + 1))
    [ $nrunning -lt 12 ] || finish
}

# run_peak TAG ARG… - runs `ckpt ARG…`; its peak memory in KiB and its exit code are in TAG.peak
run_peak()
{
    run_tag=$1
    shift
    "$runner" -n 1 "$CKPT" "$@" 9>&- 8<&- | cut -d ' ' -f 2- >"$runs/$run_tag.peak"
}

# finish - waits for the runs, except those whose tags begin with "slow-"
finish()
{
    # shellcheck disable=SC2086
    [ -z "$pids" ] || wait $pids
    pids= nrunning=0
}

# log_of TAG - prints the requests with TAG as a component of the path, or after a "." of one
log_of() { awk -F '\t' -v tag="$1" 'index($3, "." tag "/") || index($3, "/" tag "/")' "$log"; }
# requests TAG [COLUMN VALUE] - prints the number of requests with TAG, of those with VALUE in COLUMN
requests() { log_of "$1" | awk -F '\t' -v column="${2:-0}" -v value="${3:-}" '!column || $column == value' | wc -l; }
# bytes TAG - prints the number of bytes that the server sent for TAG
bytes() { log_of "$1" | awk -F '\t' '{sum += $5} END {print sum + 0}'; }

# show_run TAG - prints what is known about a run, and fails
show_run()
{
    echo "exit code $(cat "$runs/$1.exit")"
    head -c 2000 "$runs/$1.err"
    head -c 1000 "$runs/$1.out"
    log_of "$1" | head -n 30
    return 1
}

# exits TAG CODE - checks the exit code
exits() { [ "$(cat "$runs/$1.exit")" = "$2" ] || show_run "$1"; }
# reports TAG PATTERN - checks what was printed to stderr
reports() { grep -q -e "$2" "$runs/$1.err" || show_run "$1"; }
# has_code TAG PATTERN - checks the code of the error in JSON
has_code()
{
    cat "$runs/$1.out" "$runs/$1.err" | grep -q "\"schema\":\"ckpt.error.v1\",\"code\":\"\($2\)\"" || show_run "$1"
}
# took TAG REQUESTS BYTES - checks how many were needed
took() { [ "$(requests "$1") $(bytes "$1")" = "$2 $3" ] || show_run "$1"; }
# took_at_most TAG REQUESTS BYTES
took_at_most() { [ "$(requests "$1")" -le "$2" ] && [ "$(bytes "$1")" -le "$3" ] || show_run "$1"; }
# none_has PATTERN TAG - checks that no request with TAG has PATTERN, in the second origin only if $3 is 2
none_has()
{
    ! log_of "$2" | { [ "${3:-}" = 2 ] && grep "^$port_two	" || cat; } | grep -i -e "$1"
}
# all_have PATTERN TAG - checks that there are requests with TAG, and PATTERN in all
all_have() { [ "$(requests "$2")" -gt 0 ] && ! log_of "$2" | grep -v -i -e "$1"; }
# some_has PATTERN TAG
some_has() { log_of "$2" | grep -q -i -e "$1" || show_run "$2"; }

# ---------------------------------------------------------------- content

# make_files - writes the files that are served; those of 80 GB are sparse
make_files()
{
    "$mkckpt" -n 1000 -b 80G --sparse "$files/st1000.safetensors" &&
        "$mkckpt" -n 20000 -b 80G --sparse "$files/st20000.safetensors" >"$tmp/st20000" &&
        "$mkckpt" -n 5000 -b 80G --sparse "$files/wide.safetensors" &&
        "$mkckpt" -n 1000 -b 80G --sparse "$files/pt1000.pt" >"$tmp/pt1000" &&
        "$mkckpt" -n 20000 -b 80G --sparse "$files/pt20000.pt" >"$tmp/pt20000" &&
        "$mkckpt" -n 3000 -b 80G --sparse "$files/wide.pt" &&
        "$mkckpt" -n 1 -b 1G --sparse "$files/one.safetensors" &&
        "$mkckpt" -n 20 -b 20M "$files/data.safetensors" &&
        "$mkckpt" -n 20 -b 20M --changed "$files/other.safetensors" &&
        cp "$examples/train.pt" "$files/" &&
        printf 'cos\nsystem\n(S"id"\ntR.' >"$files/evil.pkl" &&
        mkdir -p "$files/keys/a=b+c d" &&
        cp "$examples/train.pt" "$files/keys/a=b+c d/t~e@s(t).pt" && ln -s "$corpus" "$files/corpus"
}

# make_set FOLDER SHARDS TENSORS BYTES - writes a sharded checkpoint of sparse files
make_set()
{
    mkdir -p "$1" && i=0
    while [ $((i += 1)) -le "$2" ]; do
        name=$(printf '%s/model-%05d-of-%05d.safetensors' "$1" $i "$2")
        "$mkckpt" -n "$3" -b "$4" -p "s$i." --sparse "$name" >"$tmp/size" || return
    done
    awk -v shards="$2" -v tensors="$3" 'BEGIN {
        n = split("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate_proj mlp.up_proj " \
            "mlp.down_proj input_layernorm post_attention_layernorm", layers, " ")
        printf "{\"metadata\":{},\"weight_map\":{"
        for (i = 1; i <= shards; i++)
            for (k = 0; k < tensors; k++)
                printf "%s\"s%d.model.layers.%d.%s.weight\":\"model-%05d-of-%05d.safetensors\"", \
                    (i + k > 1 ? "," : ""), i, int(k / 9), layers[k % 9 + 1], i, shards
        print "}}"
    }' >"$1/model.safetensors.index.json"
}

make_sets()
{
    make_set "$files/org/moe" 163 560 4G && echo '{}' >"$files/org/moe/config.json" &&
        make_set "$files/set" 32 20 64K && make_set "$files/large" 8 8 40M &&
        mkdir "$files/org/gated" "$files/org/dataset" "$files/datasets" || return
    cp "$examples/train.pt" "$files/org/gated/pytorch_model.bin"
    cp "$examples/train.pt" "$files/org/dataset/a b+c%d.bin"
    mkdir "$files/org/several"
    cp "$examples/train.pt" "$files/org/several/one.pt"
    cp "$examples/train.pt" "$files/org/several/two.pt"
    ln -s ../org "$files/datasets/org"
    ln -s moe "$files/org/moe2" && ln -s ../set "$files/org/moving"
    for name in gated-none gated-wrong gated-home gated-hfhome gated-path gated-off gated-tls pinned; do
        ln -s gated "$files/org/$name"
    done
    for name in signed session beyond wrong-key; do ln -s . "$files/$name"; done
}

# make_bad_sets - writes indices of shards that are not next to them
make_bad_sets()
{
    mkdir "$files/bad" && n=0
    for name in ../train.pt /train.pt "$two/plain.shard/train.pt" "//127.0.0.1:$port_two/plain.shard/train.pt" \
        'a\\b.safetensors' './/train.pt'; do
        n=$((n + 1))
        printf '{"weight_map":{"w":"%s"}}\n' "$name" >"$files/bad/$n.safetensors.index.json"
    done
}

# ----------------------------------------------------------------- checks

if [ ! -x "$B/tests/remote/server" ]; then
    skip 'the server is not built'
    summary
    exit
fi
start_server || { echo 'FAIL the server starts'; exit 1; }
cp "$examples/train.pt" "$files/probe.pt"
run probe ls "$one/plain.probe/probe.pt"
finish
if grep -q -i 'libcurl' "$runs/probe.err"; then
    skip "$(head -n 1 "$runs/probe.err")"
    summary
    exit
fi
check 'files' make_files
check 'sets' make_sets
check 'bad sets' make_bad_sets

# These take seconds, since their requests are repeated.
run slow-503 ls --json "$one/always-503.slow-503/wide.pt"
run slow-reset ls --json "$one/reset.slow-reset/wide.safetensors"
run slow-headers ls --json "$one/endless-headers.slow-headers/wide.safetensors"
run slow-tls ls --json "https://127.0.0.1:$port_one/plain.slow-tls/wide.safetensors"
run slow-garbage ls --json "$one/garbage.slow-garbage/wide.safetensors"

# --- the requests that a file takes, as in the table of what they took in a prototype
run st1000 ls "$one/plain.st1000/st1000.safetensors"
run st20000 ls "$one/plain.st20000/st20000.safetensors"
run pt1000 ls "$one/plain.pt1000/pt1000.pt"
run pt20000 ls "$one/plain.pt20000/pt20000.pt"
run data hash "$one/plain.data/data.safetensors"
run_peak many hash --xxh3 "$one/plain.many/large/model.safetensors.index.json"
run slice show "$one/plain.slice/one.safetensors" 'model.layers.0.self_attn.q_proj.weight[0:2]'
run late ls "$one/late.late/set/model.safetensors.index.json"
with=HF_ENDPOINT=$one/hub
run moe ls hf://org/moe
run moving ls --json hf://org/moving
run endless ls --json hf://org/endless
run several ls hf://org/several
run several-all ls --json -r hf://org/several
run moe2 diff --keys-only hf://org/moe2/model.safetensors.index.json "$files/org/moe/model.safetensors.index.json"
with=
finish

# --- faults: behaviour, file, exit code, most requests, code in JSON
faults='
no-ranges wide.pt 2 2 unsupported
no-ranges-late wide.safetensors 2 2 unsupported
no-suffix wide.pt 0 5
weak wide.safetensors 0 2
changing wide.safetensors 2 2 changed
changing wide.pt 2 4 changed
changing-412 wide.safetensors 2 2 changed
changing-total wide.safetensors 2 2 changed
changing-date wide.safetensors 2 2 changed
changing-escapes wide.safetensors 2 2 changed
gzip wide.safetensors 0 2
always-gzip wide.safetensors 2 1 unsupported\|malformed\|io
gzip-late wide.safetensors 2 2 unsupported\|malformed\|io
elsewhere wide.safetensors 2 1 malformed
elsewhere wide.pt 2 2 malformed
elsewhere-late wide.safetensors 2 2 malformed
huge-total wide.safetensors 2 1 malformed\|unsupported
no-total wide.safetensors 2 1 malformed\|unsupported
no-content-range wide.safetensors 2 1 malformed\|unsupported
multipart wide.safetensors 2 1 malformed\|unsupported
long-body wide.safetensors 2 1 malformed\|io
empty wide.safetensors 2 65 io
empty-late wide.safetensors 2 66 io
crumbs wide.safetensors 2 65 io
chunked wide.safetensors 0 2
escapes wide.safetensors 0 2
status-400 wide.pt 2 2 io
status-401 wide.safetensors 2 1 io
status-403 wide.safetensors 2 1 io
status-404 wide.safetensors 2 1 not-found
status-412 wide.safetensors 2 1 changed
status-416 wide.safetensors 2 1 .*
status-204 wide.safetensors 2 1 .*
status-304 wide.safetensors 2 1 .*
status-418 wide.safetensors 2 1 io
endless-200 wide.pt 2 2 .*
endless-403 wide.safetensors 2 1 io
endless-404 wide.safetensors 2 1 not-found
fail-408-1 wide.safetensors 0 3
fail-429-1 wide.safetensors 0 3
fail-500-1 wide.safetensors 0 3
fail-502-1 wide.safetensors 0 3
fail-503-2 wide.safetensors 0 4
fail-504-1 wide.safetensors 0 3
reset-1 wide.safetensors 0 3
short-2 wide.safetensors 0 4
redirect-5 wide.safetensors 0 7
redirect-6 wide.safetensors 2 6 io
redirect-loop wide.safetensors 2 6 io
redirect-relative wide.safetensors 0 3
redirect-other wide.safetensors 0 3
redirect-signed wide.safetensors 0 3
redirect-expiring-1 wide.safetensors 0 5
redirect-expiring-0 wide.safetensors 2 4 io
redirect-file wide.safetensors 2 1 .*
redirect-ftp wide.safetensors 2 1 .*
redirect-user wide.safetensors 2 1 .*
redirect-control wide.safetensors 2 1 .*
redirect-nowhere wide.safetensors 2 1 .*
'
# each_fault FUNCTION - calls FUNCTION TAG and the columns, for each line of $faults
each_fault()
{
    echo "$faults" >"$tmp/faults"
    while read -r behaviour file code most json <&3; do
        [ -z "$behaviour" ] || "$1" "$behaviour-${file#*.}" "$behaviour" "$file" "$code" "$most" "$json"
    done 3<"$tmp/faults"
}
run_fault() { run "$1" info --json "$one/$2.$1/$3" 3<&-; }
check_fault()
{
    check "$1: exit code" exits "$1" "$4"
    check "$1: requests" took_at_most "$1" "$5" 1048576
    [ -z "$6" ] || check "$1: code" has_code "$1" "$6"
}
each_fault run_fault
finish

# --- secrets
with="HF_TOKEN=$token HF_ENDPOINT=$one/hub"
run gated ls hf://org/gated/pytorch_model.bin
run pinned ls hf://org/pinned@v1
run dataset ls 'hf://datasets/org/dataset/a b+c%d.bin'
run no-revision ls --json hf://org/no-revision@v2/pytorch_model.bin
run other-token ls "$two/plain.other-token/train.pt"
with="HF_ENDPOINT=$one/hub"
with="$with HOME=$tmp" # without the token that is written below
run gated-none ls hf://org/gated-none/pytorch_model.bin
with="HF_TOKEN=hf_WrongToken HF_ENDPOINT=$one/hub"
run gated-wrong ls hf://org/gated-wrong/pytorch_model.bin
with="HF_ENDPOINT=$one/hub"
run hub-missing ls hf://org/hub-missing/missing.bin
mkdir -p "$HOME/.cache/huggingface" && echo "$token" >"$HOME/.cache/huggingface/token"
echo hf_WrongToken >"$tmp/token-file"
with="HF_ENDPOINT=$one/hub"
run gated-home ls hf://org/gated-home/pytorch_model.bin
with="HF_ENDPOINT=$one/hub HF_TOKEN_PATH=$tmp/token-file"
run gated-path ls hf://org/gated-path/pytorch_model.bin
mkdir "$tmp/hfhome" && echo "$token" >"$tmp/hfhome/token"
with="HF_ENDPOINT=$one/hub HF_HOME=$tmp/hfhome"
run gated-hfhome ls hf://org/gated-hfhome/pytorch_model.bin
with="HF_ENDPOINT=$one/hub HF_HUB_DISABLE_IMPLICIT_TOKEN=1"
run gated-off ls hf://org/gated-off/pytorch_model.bin
with=
finish
rm "$HOME/.cache/huggingface/token"

s3="AWS_ENDPOINT_URL=$one AWS_REGION=eu-test-1"
with="$s3 AWS_ACCESS_KEY_ID=AKIATESTKEY AWS_SECRET_ACCESS_KEY=$s3_secret"
run signed hash 's3://s3-bucket/signed/keys/a=b+c d/t~e@s(t).pt'
run s3-other ls "$two/plain.s3-other/train.pt"
with="$s3 AWS_ACCESS_KEY_ID=ASIATESTKEY AWS_SECRET_ACCESS_KEY=$s3_secret AWS_SESSION_TOKEN=$s3_session"
run session ls s3://s3-bucket/session/wide.safetensors
run beyond ls s3://s3-redirect/beyond/wide.safetensors
with="$s3 AWS_ACCESS_KEY_ID=AKIATESTKEY AWS_SECRET_ACCESS_KEY=wrongSecretKey"
run wrong-key ls s3://s3-bucket/wrong-key/wide.safetensors
with=
echo 'machine 127.0.0.1 login netrcUser password netrcSecret' >"$HOME/.netrc"
chmod 600 "$HOME/.netrc"
run netrc ls --netrc "$one/redirect-other.netrc/train.pt"
run no-netrc ls "$one/plain.no-netrc/train.pt"
run typed ls --json "$one/plain.typed/train.pt?X-Amz-Security-Token=typedSecret"
run typed-fails ls "$one/status-403.typed-fails/train.pt?X-Amz-Security-Token=typedSecret"
run typed-json ls --json "$one/status-403.typed-json/train.pt?X-Amz-Security-Token=typedSecret"
query='?X-Amz-Security-Token=typedSecret'
run typed-doctor doctor "$one/plain.typed-doctor/corpus/torch/protocols/p2.pt$query"
run typed-doctor-json doctor --json "$one/plain.typed-doctor-json/corpus/torch/protocols/p2.pt$query"
run typed-misspelled ls "http:/127.0.0.1:$port_one/plain.typed-misspelled/train.pt$query"
run typed-other ls --json "ftp://user:urlSecret@127.0.0.1:$port_one/plain.typed-misspelled/train.pt$query"
run typed-command "$one/plain.typed-command/train.pt$query"
run typed-output convert "$examples/train.pt" -o "$one/plain.typed-output/train.pt$query"
run typed-operands mem "$one/plain.typed-operands/train.pt$query" "$one/plain.typed-operands/train.pt$query"
run typed-changed ls "$one/changing.typed-changed/wide.safetensors?X-Amz-Security-Token=typedSecret"
finish

# --- what is not requested
run offline ls --offline "$one/plain.offline/train.pt"
run offline-json ls --json --offline "$one/plain.offline/train.pt"
with=CKPT_OFFLINE=1
run offline-env diff "$one/plain.offline/train.pt" "$examples/train.pt"
with="CKPT_OFFLINE=1 HF_ENDPOINT=$one/hub"
run offline-hub ls hf://org/offline
with=
run user ls "http://user:urlSecret@127.0.0.1:$port_one/plain.user/train.pt"
run port ls "http://127.0.0.1:70000/plain.user/train.pt"
run file-url ls "file://$examples/train.pt"
run ftp-url ls "ftp://127.0.0.1:$port_one/plain.user/train.pt"
run control ls "$one/plain.control/train.pt$(printf '\r\nX-Own: 1')"
run hub-dots ls hf://org/../plain.user/train.pt
n=0
for file in "$files"/bad/*.json; do
    n=$((n + 1))
    run bad-$n ls "$one/plain.bad-$n/bad/$n.safetensors.index.json"
done
with="http_proxy=$two"
run proxy ls "http://127.0.0.2:$port_one/plain.proxy/train.pt"
with="http_proxy=$two no_proxy=127.0.0.1"
run no-proxy ls "$one/plain.no-proxy/train.pt"
with=
finish

# --- the same output as of a local file
# same TAG COMMAND FILE… - starts two runs of `ckpt COMMAND FILE…`, one with a URL in place of FILE
same()
{
    tag=$1 command=$2 file=$3
    shift 3
    # shellcheck disable=SC2086
    run "$tag" $command "$one/plain.$tag/$file" "$@"
    # shellcheck disable=SC2086
    run "$tag-local" $command "$files/$file" "$@"
    sames="$sames $tag:$file"
}
# is_same TAG:FILE - compares the two runs, but for the name, and where records of torch are in the file, which is not
# asked of a server
is_same()
{
    tag=${1%%:*} file=${1#*:}
    for stream in out err exit; do
        sed "s|$one/plain.$tag/||g" "$runs/$tag.$stream" | tr -s ' ' >"$tmp/remote"
        sed "s|$files/||g" "$runs/$tag-local.$stream" | tr -s ' ' >"$tmp/local"
        case $tag in train-ls-json) sed -i 's/"file_offset":[0-9]*,/"file_offset":null,/g' "$tmp/local" ;; esac
        diff "$tmp/remote" "$tmp/local" | cut -c1-300
        cmp -s "$tmp/remote" "$tmp/local" || return
    done
}
sames=
for command in ls tree info show hash stat verify scan doctor mem; do
    same "train-$command" $command train.pt
    [ $command = show ] || same "train-$command-json" "$command --json" train.pt
done
same data-hash hash data.safetensors
same data-verify verify data.safetensors
same data-show show data.safetensors 'model.layers.1.mlp.up_proj.weight[0:2]'
same data-diff diff data.safetensors "$files/other.safetensors"
same data-diff-same diff data.safetensors "$files/data.safetensors"
same set-hash hash set/model.safetensors.index.json
same set-verify verify set/model.safetensors.index.json
n=0
for file in compressed/tiny.safetensors.bz2 flax/chunked.msgpack gguf/align128.gguf keras/hdf5/array_pages.h5 \
    mindspore/crc.ckpt mxnet/dtypes.params numpy/np1/be_c8.npy onnx/dtypes_raw.onnx openvino/half/half.xml \
    paddle/bigparam_p2.pdparams quantized/awq/model.safetensors tensordict/jagged.td tensorflow/v2/shards.index \
    tensorizer/meta.tensors tfjs/dtypes/model.json thinc/chain.bin torch/t215/dist/dcp_multi/.metadata \
    containers/macos.zip; do
    n=$((n + 1))
    same corpus-$n 'hash --json' "corpus/$file"
done
# --- scan, whose child gets the bytes from the process that reads them
same evil scan evil.pkl
for option in --json --sarif --all --sandbox=off; do same "evil$option" "scan $option" evil.pkl; done
same evil-sha256 'scan --json --sha256' evil.pkl
run evil-two scan --json "$one/plain.evil-two/evil.pkl" "$files/train.pt"
n=0
for file in compressed/tiny.safetensors.bz2 keras/hdf5/array_pages.h5 torch/t10/dtypes.pt containers/macos.zip; do
    n=$((n + 1))
    same scan-$n 'scan --json' "corpus/$file"
done
same scan-data 'scan --json --sha256' data.safetensors
run scan-two scan -q "$one/plain.scan-two/evil.pkl" "$one/plain.scan-two/train.pt" "$one/status-404.scan-two/evil.pkl" \
    "$one/plain.scan-two/evil.pkl"
run scan-offline scan --offline "$one/plain.scan-offline/evil.pkl"
run scan-metadata scan "$one/plain.scan-metadata/corpus/torch/t215/dist/dcp_multi/.metadata"
with=HF_ENDPOINT=$one/hub
run scan-folder scan hf://org/moe
with=
for how in auto off; do
    for fault in changing-total elsewhere-late gzip-late; do
        run scan-$fault-$how scan --json --sandbox=$how \
            "$one/$fault.scan-$fault-$how/wide.safetensors"
    done
    run scan-404-$how scan --sandbox=$how "$one/status-404.scan-404-$how/evil.pkl?X-Amz-Security-Token=typedSecret"
done
# Folders, which the Hub lists.
hub_same()
{
    [ -e "$files/org/$1" ] || ln -s "$2" "$files/org/$1"
    with=HF_ENDPOINT=$one/hub
    run "$1" hash "hf://org/$1"
    with=
    run "$1-local" hash "$2"
    hub_sames="$hub_sames $1:$2"
}
is_hub_same()
{
    for stream in out exit; do
        sed "s|hf://org/$1|NAME|" "$runs/$1.$stream" >"$tmp/remote"
        sed "s|$2|NAME|" "$runs/$1-local.$stream" | diff "$tmp/remote" - || show_run "$1" || return
    done
}
# Folders of a web server, which lists none.
web_folder() { run "$1" hash "$one/plain.$1/corpus/$2/" && run "$1-local" hash "$corpus/$2"; }
web_folder web-dcp torch/t215/dist/dcp_multi
web_folder web-orbax orbax/standard
web_folder web-tensorflow tensorflow/savedmodel_v2
for folder in zarr/group_v2 zarr/group_v3 deepspeed/zero3_bf16 megatron/tp2; do
    run "web-${folder##*/}" ls "$one/plain.web-refused/corpus/$folder/"
done
hub_sames=
hub_same hub-dcp "$corpus/torch/t215/dist/dcp_multi"
hub_same hub-megatron "$corpus/megatron/tp2"
hub_same hub-zarr "$corpus/zarr/group_v3"
hub_same hub-orbax "$corpus/orbax/standard"
hub_same hub-tensorflow "$corpus/tensorflow/v2/run"
run convert convert "$one/plain.convert/train.pt" "$tmp/converted.safetensors"
run convert-local convert "$examples/train.pt" "$tmp/converted-local.safetensors"
run strip strip module. "$one/plain.strip/train.pt" -o "$tmp/stripped.pt"
run strip-local strip module. "$examples/train.pt" -o "$tmp/stripped-local.pt"
finish

# --- an interrupted download; nothing else has a connection then
# shellcheck disable=SC2086
wait $slow_pids
# interrupted TAG COMMAND - checks that SIGINT ends COMMAND at once, and the processes that it started
interrupted()
{
    # shellcheck disable=SC2086
    timeout -s INT -k 3 0.4 env --default-signal=INT "$CKPT" $2 "$one/$3.$1/wide.pt" >"$runs/$1.out" \
        2>"$runs/$1.err" 9>&- 8<&-
    code=$?
    sleep 0.1
    if [ $code -ne 124 ] || ps -A -o args= | grep "^[^ ]*$CKPT.*.$1/" || ! settle; then
        echo "exit code $code"
        show_run "$1"
    fi
}
if env --default-signal=INT true 2>/dev/null; then
    for pair in 'ls slow' 'scan slow' 'scan hang' 'scan hang-late' 'hash hang'; do
        check "SIGINT: $pair" interrupted "int-${pair% *}-${pair#* }" "${pair% *}" "${pair#* }"
    done
else
    skip 'env has no --default-signal, so that nothing was interrupted'
fi

# --- what the process that scans can do
# connections PID - prints the connections of a process
connections()
{
    for number in $(ls -l "/proc/$1/fd" | sed -n 's/.*socket:\[\(.*\)\]/\1/p'); do
        awk -v number="$number" '$10 == number' /proc/net/tcp
    done
}
# is_confined - checks the child of a scan that waits for the bytes after the first
is_confined()
{
    HF_TOKEN=$token "$CKPT" scan "$one/hang-late.confined/wide.safetensors?X-Amz-Security-Token=typedSecret" \
        >"$tmp/confined" 2>&1 9>&- 8<&- &
    parent=$! child= tries=0
    until [ -n "$child" ] && grep -q 'Seccomp:.*2' "/proc/$child/status" && [ -n "$(connections $parent)" ]; do
        child=$(ps -o pid= --ppid $parent | tr -d ' ')
        tries=$((tries + 1))
        [ $tries -lt 100 ] || break
        sleep 0.02
    done
    [ $tries -lt 100 ] && [ -n "$(connections $parent)" ] && [ -z "$(connections "$child")" ] &&
        ! tr '\0' '\n' <"/proc/$child/environ" | grep 'TOKEN\|^HOME' && ! grep Secret "/proc/$child/cmdline"
    code=$?
    kill $parent
    wait $parent 2>/dev/null
    [ $code -eq 0 ] || cat "$tmp/confined"
    return $code
}
if [ -r /proc/self/environ ] && "$CKPT" scan --sandbox=test . >"$tmp/sandbox" 2>&1; then
    check 'scan: the child has no connection and no secret' is_confined
else
    skip 'there is no /proc or no sandbox, so that the process that scans was not looked at'
fi

# --- TLS
if ! command -v nginx >/dev/null 2>&1 || ! command -v openssl >/dev/null 2>&1; then
    skip 'nginx or openssl is not installed, so that nothing was read by TLS'
elif ! (make_certificates) >"$tmp/log" 2>&1 || ! start_nginx >>"$tmp/log" 2>&1; then
    echo 'FAIL nginx starts'
    cat "$tmp/log"
    failed=$((failed + 1))
else
    with="HF_ENDPOINT=$tls/hub HF_TOKEN=$token"
    run gated-tls ls --cacert "$tmp/ca.pem" hf://org/gated-tls/pytorch_model.bin
    with=
    run tls-1000 ls --cacert "$tmp/ca.pem" "$tls/files/st1000.safetensors"
    run tls-pt ls --cacert "$tmp/ca.pem" "$tls/files/pt1000.pt"
    run tls-hash hash --cacert "$tmp/ca.pem" "$tls/files/data.safetensors"
    run tls-untrusted ls "$tls/plain.tls-untrusted/train.pt"
    run tls-name ls --cacert "$tmp/ca.pem" "https://localhost:$tls_port_one/plain.tls-name/train.pt"
    run tls-http ls --cacert "$tmp/ca.pem" "$tls/redirect-http.tls-http/train.pt"
    run tls-scan scan --cacert "$tmp/ca.pem" "$tls/files/evil.pkl"
    run tls-other ls --cacert "$tmp/ca.pem" "$tls/redirect-other.tls-other/train.pt"
    run tls-no-ca ls --cacert "$tmp/missing.pem" "$tls/plain.tls-no-ca/train.pt"
    finish
fi
settle

# ------------------------------------------------------- what they have to be
for tag in st1000 st20000 pt1000 pt20000 data slice late moe moe2; do
    check "$tag: exit code" exits $tag 0
done
check 'safetensors of 1,000 tensors' took st1000 1 131072
all_names() { [ "$(wc -l <"$runs/$1.out")" -eq "$2" ] || show_run "$1"; }
check 'safetensors of 20,000 tensors' took_at_most st20000 2 2600000
check 'zip of 1,000 entries' took pt1000 2 262144
check 'zip of 20,000 entries' took_at_most pt20000 4 $((2 * 3420000 + 262144))
for tag in st1000 pt1000; do check "$tag: names" all_names $tag 1000; done
for tag in st20000 pt20000; do check "$tag: names" all_names $tag 20000; done
check 'hash: each byte once' took_at_most data 12 $(($(wc -c <"$files/data.safetensors") + 131072))
# needs_at_most TAG KIB - checks the exit code and the peak memory of a run
needs_at_most()
{
    read -r peak_kib peak_status <"$runs/$1.peak" && [ "$peak_status" = 0 ] && [ "$peak_kib" -le "$2" ] ||
        { cat "$runs/$1.peak" && return 1; }
}
check 'hash of 8 files of 40 MB: memory' needs_at_most many $((192 << 10))
check 'a slice' took_at_most slice 3 1048576
check 'identity' all_have 'accept-encoding: identity' st20000
check 'user agent' all_have 'user-agent: ckpt/' st20000
check 'no other headers' none_has "$secret_headers" st20000
check 'If-Match' some_has 'if-match: "' st20000
check 'no If-Match of a weak ETag' none_has 'if-match' weak-safetensors
check 'no If-Range' none_has 'if-range' st20000
only_get() { ! awk -F '\t' '$2 != "GET"' "$log" | grep .; }
check 'GET only' only_get
one_range() { ! grep -i 'range: bytes=[0-9-]*,' "$log"; }
check 'one range at a time' one_range

# at_the_same_time - checks that 33 files, whose replies begin after 100 ms, took much less than 3.3 s
at_the_same_time()
{
    [ "$(requests late)" -ge 33 ] &&
        log_of late | awk -F '\t' 'NR == 1 {first = $6} {last = $6} END {print last - first; exit last - first > 1500}'
}
check 'shards at the same time' at_the_same_time

# each_shard_twice TAG - checks that each shard took at most one redirect, and two requests after it
each_shard_twice()
{
    log_of "$1" | awk -F '\t' '
        {sub(/[?].*/, "", $3); sub(/.*\//, "", $3)}
        $4 == 302 {redirects[$3]++}
        $4 == 206 && $3 !~ /json$/ {n[$3]++}
        END {
            for (file in n) {files++; if (n[file] > 2) print file, n[file], "requests"}
            for (file in redirects) if (redirects[file] > 1) print file, redirects[file], "redirects"
            if (files != 163) print files + 0, "files"
        }' | { ! grep .; }
}
run moe-local ls "$files/org/moe/model.safetensors.index.json"
finish
same_names() { cmp "$runs/moe.out" "$runs/moe-local.out"; }
pins_revision()
{
    log_of moe | awk -F '\t' '$3 ~ /-of-/ && /\/resolve\/main\//{main++} /\/resolve\/0123456789abcdef/{pinned++}
        END {print main + 0, pinned + 0; exit !(main <= 1 && pinned >= 162)}'
}
check 'hub: requests of 163 shards' each_shard_twice moe
check 'hub: names of 163 shards' same_names
index_requests() { log_of "$1" | awk -F '\t' '$3 ~ /index.json$/ {n++} END {print n; exit !(n <= 5)}'; }
check 'hub: requests of the index' index_requests moe
check 'hub: the revision is pinned' pins_revision
# lists_at_commit TAG - checks that all lists but the first are of the commit that the first file was of
lists_at_commit()
{
    log_of "$1" | awk -F '\t' '
        /\/tree\// && n++ && !/\/tree\/0123456789abcdef/ {bad = 1}
        END {exit bad || n < 2}' || show_run "$1"
}
check 'hub: the commit of lists' lists_at_commit hub-megatron
for tag in moving endless; do check "$tag: exit code" exits $tag 2; done
check 'hub: another commit: code' has_code moving changed
check 'hub: another commit: message' reports moving 'commit'
check 'hub: folders without end: code' has_code endless limit
check 'hub: folders without end: requests' took_at_most endless 80 16000000
for tag in several several-all; do check "$tag: exit code" exits $tag 2; done
lists_several() { tr ', ' '\n\n' <"$runs/several.err" | grep -c '^hf://org/several/\(one\|two\)\.pt$' | grep -q 2; }
check 'hub: a folder with several checkpoints lists them' lists_several
check 'hub: -r is refused' has_code several-all usage
check 'hub: -r is refused: no request' took several-all 0 0
check 'hub: diff of 163 shards' each_shard_twice moe2

each_fault check_fault
for tag in slow-503 slow-reset slow-headers slow-garbage; do
    check "$tag: exit code" exits $tag 2
    check "$tag: code" has_code $tag 'io\|malformed'
    check "$tag: requests" took_at_most $tag 10 1048576
done
check 'http as https: exit code' exits slow-tls 2
check 'http as https: what to do' reports slow-tls 'TLS handshake: is its URL http://'
check 'always 503: five tries' took_at_most slow-503 10 1000
repeats() { [ "$(requests "$1")" -eq "$2" ] || show_run "$1"; }
check 'reset: five tries' repeats slow-reset 5
check 'fail-503-2: three tries, and the rest' repeats fail-503-2-safetensors 4
waits_a_second()
{
    log_of "$1" | awk -F '\t' 'NR == 1 {t = $6} NR == 2 {waited = $6 - t} END {print waited; exit waited < 950}'
}
check 'Retry-After' waits_a_second fail-429-1-safetensors
check 'a short body is resumed' some_has 'range: bytes=65536-131071' short-2-safetensors
no_control() { ! LC_ALL=C grep -l "$(printf '\033')" "$runs"/*.out "$runs"/*.err; }
check 'no control characters of a server are printed' no_control

# --- secrets
for tag in gated pinned gated-home gated-hfhome dataset other-token; do check "$tag: exit code" exits $tag 0; done
for tag in gated-none gated-wrong gated-path gated-off hub-missing no-revision; do
    check "$tag: exit code" exits $tag 2
done
check 'hub: the revision' some_has '/resolve/v1/' pinned
check 'hub: no such revision' has_code no-revision not-found
check 'hub: the token' some_has "authorization: bearer $token" gated
check 'hub: no token beyond' none_has "$secret_headers" gated 2
check 'hub: redirected' some_has "^$port_two	.*206" gated
check 'hub: no token for others' none_has "$secret_headers" other-token
check 'hub: no token at all' none_has authorization gated-off
check 'hub: says that there was none' reports gated-none '401.*\|HF_TOKEN'
check 'hub: source of the token' reports gated-wrong 'HF_TOKEN'
check 'hub: source of the token, a file' reports gated-path 'HF_TOKEN_PATH\|token-file'
check 'hub: head and tail once for 401' repeats gated-wrong 2
check 'hub: what 404 may mean' reports hub-missing '404'
check 'hub: that the file is absent' reports hub-missing 'no such file'
for tag in signed session beyond s3-other; do check "$tag: exit code" exits $tag 0; done
# same_digests TAG OTHER - compares the outputs of hash, but for the name in their last line
same_digests()
{
    sed '$s/  .*//' "$runs/$1.out" >"$tmp/digests" && sed '$s/  .*//' "$runs/$2.out" | diff "$tmp/digests" -
}
check 's3: content' same_digests signed train-hash-local
check 's3: nothing beyond' none_has "$secret_headers" beyond 2
check 's3: redirected' some_has "^$port_two	.*206" beyond
check 's3: nothing for others' none_has "$secret_headers" s3-other
check 's3: wrong key' exits wrong-key 2
check 's3: one request for 403' repeats wrong-key 1
check 's3: source of the key' reports wrong-key 'AWS_SECRET_ACCESS_KEY\|AWS_ACCESS_KEY_ID'
check 'netrc: exit code' exits netrc 0
check 'netrc: sent' some_has "^$port_one	.*authorization: basic" netrc
check 'netrc: not to another port' none_has authorization netrc 2
check 'netrc: not without the option' none_has authorization no-netrc
check 'typed query: exit code' exits typed 0
check 'typed query: sent' some_has typedSecret typed
check 'typed-doctor: exit code' exits typed-doctor 1
for tag in typed-fails typed-json typed-changed typed-command typed-output typed-operands; do
    check "$tag: exit code" exits $tag 2
done
for tag in typed-misspelled typed-other; do check "$tag: exit code" exits $tag 2; done
check 'command with a URL' grep -q "sanitize '$one/plain.typed-doctor/corpus/torch/protocols/p2.pt?QUERY' -o" \
    "$runs/typed-doctor.out"
check 'command with a URL, of the library' grep -q "scan '$one/.*/p2.pt?QUERY'. lists" "$runs/typed-doctor.out"
check 'misspelled URL' reports typed-misspelled "did you mean '$one/plain.typed-misspelled/train.pt?QUERY'"
check 'message: URL' reports typed-fails "^ckpt: $one/status-403.typed-fails/train.pt: .*403"
check 'message: changed' reports typed-changed 'changed while'
no_secret()
{
    ! grep -e 'Secret\|Token=\|X-Amz\|Signature=\|hf_Test\|hf_Wrong\|SessionToken' "$runs"/*.out "$runs"/*.err
}
check 'no secret is printed' no_secret
check 'redirect-signed: redirected' some_has "^$port_two	.*QuerySecret.*206" redirect-signed-safetensors
resolved() { [ "$(requests "$1" 1 "$port_one") $(requests "$1" 1 "$port_two")" = "$2" ] || show_run "$1"; }
check 'a redirect is kept' resolved redirect-signed-safetensors '1 2'
# no_pauses TAG - checks that no pause of 100 ms, the longest that libcurl waits, is made between all requests, of which
# each is sent when the one before has ended: at least one follows sooner, even if the machine is busy
no_pauses()
{
    log_of "$1" | awk -F '\t' 'NR > 1 {print $6 - last; prompt += $6 - last < 60} {last = $6} END {exit !prompt}'
}
check 'redirects: no pauses' no_pauses redirect-5-safetensors
check 'an expired redirect is resolved again' resolved redirect-expiring-1-safetensors '2 3'
check 'an expired redirect is resolved again once' took_at_most redirect-expiring-0-safetensors 4 1000

# --- what is not requested
for tag in offline offline-json offline-env offline-hub user port file-url ftp-url control hub-dots; do
    check "$tag: exit code" exits $tag 2
done
check 'offline: code' has_code offline-json usage
check 'offline: message' reports offline 'offline'
check 'offline: no request' repeats offline 0
check 'user in a URL: no request' repeats user 0
check 'control characters in a URL: no header' none_has '	x-own:' control
for n in 1 2 3 4 5 6; do
    check "bad-$n: exit code" exits bad-$n 2
    check "bad-$n: no request of the shard" repeats bad-$n 1
done
check 'shard of another origin: no request' none_has "^$port_two	" plain.shard
check 'proxy: exit code' exits proxy 0
check 'proxy: all requests' none_has "^$port_one	" proxy
check 'no_proxy: exit code' exits no-proxy 0
check 'no_proxy: no request of the proxy' none_has "^$port_two	" no-proxy

# --- the same as of local files
for pair in $sames; do check "the same: $pair" is_same "$pair"; done
for tag in web-dcp web-orbax web-tensorflow; do
    check "$tag: exit code" exits $tag 0
    check "$tag: the same digests" same_digests $tag $tag-local
done
for tag in web-group_v2 web-group_v3 web-zero3_bf16 web-tp2; do
    check "$tag: exit code" exits $tag 2
    check "$tag: what to do" reports $tag 'does not list its files'
done
for pair in $hub_sames; do check "the same: ${pair%%:*}" is_hub_same "${pair%%:*}" "${pair#*:}"; done
check 'convert: exit code' exits convert 0
check 'convert: the same file' cmp "$tmp/converted.safetensors" "$tmp/converted-local.safetensors"
check 'strip: exit code' exits strip 0
check 'strip: the same file' cmp "$tmp/stripped.pt" "$tmp/stripped-local.pt"

# --- scan
for tag in evil evil--json evil--sarif evil--sandbox=off evil-two scan-two; do
    check "$tag: exit code" exits $tag 1
done
for tag in scan-offline scan-metadata scan-folder; do check "$tag: exit code" exits $tag 2; done
incomplete() { grep -q '"verdict":"INCOMPLETE".*"complete":false' "$runs/$1.out" || show_run "$1"; }
once() { [ "$(grep -c . "$runs/$1.err")" = 1 ] || show_run "$1"; }
finds() { [ "$(grep -c '^KNOWN-EXEC .*evil.pkl' "$runs/scan-two.out")" = 2 ] || show_run scan-two; }
check 'scan: several files' finds
check 'scan: several files in JSON' all_names evil-two 2
check 'scan: offline: no request' repeats scan-offline 0
check 'scan: a folder: says so' reports scan-folder 'name the file in it'
for how in auto off; do
    for fault in changing-total:changed elsewhere-late:malformed 'gzip-late:unsupported\|malformed\|io'; do
        tag=scan-${fault%%:*}-$how
        check "$tag: exit code" exits $tag 2
        check "$tag: code" has_code $tag "${fault#*:}"
        check "$tag: incomplete" incomplete $tag
        check "$tag: one error" once $tag
    done
    check "scan-404-$how: exit code" exits scan-404-$how 2
    check "scan-404-$how: message" reports scan-404-$how '/evil.pkl: the server answers with status 404'
done

# --- TLS
if [ -n "${tls:-}" ]; then
    for tag in gated-tls tls-1000 tls-pt tls-hash tls-other; do check "$tag: exit code" exits $tag 0; done
    check 'tls-scan: exit code' exits tls-scan 1
    for tag in tls-untrusted tls-name tls-http tls-no-ca; do check "$tag: exit code" exits $tag 2; done
    nginx_sent() { [ "$(grep "^/files/$1 206" "$tmp/nginx/access.log" | awk '{print $3}' | xargs)" = "$2" ]; }
    check 'nginx: safetensors of 1,000 tensors' nginx_sent st1000.safetensors 131072
    check 'nginx: zip of 1,000 entries' nginx_sent pt1000.pt '131072 131072'
    check 'nginx: the same digests' same_digests tls-hash data-hash-local
    check 'untrusted: says so' reports tls-untrusted '[Cc]ertificate'
    for tag in tls-untrusted tls-name tls-no-ca; do check "$tag: no request" repeats $tag 0; done
    check 'https to http: no request' none_has "^$port_two	" tls-http
    check 'TLS: the token' some_has "^$port_one	.*authorization: bearer $token" gated-tls
    check 'TLS: no token beyond' none_has "$secret_tls_headers" gated-tls 2
fi

# --- local work
no_curl() { ! { ldd "$CKPT" | grep curl; }; }
check 'libcurl is not linked' no_curl
not_loaded() { LD_DEBUG=libs "$CKPT" ls "$examples/train.pt" >"$tmp/debug" 2>&1 && ! grep libcurl "$tmp/debug"; }
check 'libcurl is not loaded' not_loaded
summary
