# Operands that are URLs: no secret of them is shown, and nothing is asked that the options or the environment forbid.
unset HF_HOME HF_ENDPOINT XDG_CACHE_HOME HF_HUB_DISABLE_IMPLICIT_TOKEN || :
HF_TOKEN=hf_secret AWS_ACCESS_KEY_ID=secret AWS_SECRET_ACCESS_KEY=secret
export HF_TOKEN AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
# run WORD… - prints the command ckpt WORD… and its exit status; its errors are in the standard output
run()
{
    echo "\$ ckpt $*" | sed 's/secret/SECRET/g'
    ckpt "$@" 2>&1
    echo "exit status: $?"
}
# outputs are not written to servers, nor files on servers edited
run convert data/train.pt 'https://example.org/out.pt?secret'
run convert data/train.pt -o s3://bucket/out.safetensors
run strip module. hf://org/repo/model.pt --in-place
run strip --auto hf://org/repo/model.pt
run strip hf://org/repo/model.pt module. -o out.pt
run meta hf://org/repo/model.safetensors a=b --in-place
# a token that cannot be in a header
HF_TOKEN='hf secret' run ls hf://org/repo/model.pt
HF_TOKEN=$(printf 'hf_\nsecret') run ls hf://org/repo/model.pt
HF_TOKEN=$(printf 'hf_\303\251secret') run ls hf://org/repo/model.pt
AWS_SESSION_TOKEN=$(printf 'a\r\nsecret: b') run ls s3://bucket/model.pt
AWS_REGION='secret region' run ls s3://bucket/model.pt
# the file with the token, where huggingface_hub looks for it
mkdir -p home/.cache/huggingface hf cache/huggingface
for file in home/.cache/huggingface/token hf/token cache/huggingface/token given; do printf 'hf secret\n' >"$file"; done
export HOME="$PWD/home" HF_TOKEN=' '
run ls hf://org/repo/model.pt | sed "s|$PWD|PWD|"
XDG_CACHE_HOME=$PWD/cache run ls hf://org/repo/model.pt | sed "s|$PWD|PWD|"
HF_HOME=$PWD/hf XDG_CACHE_HOME=$PWD/cache run ls hf://org/repo/model.pt | sed "s|$PWD|PWD|"
HF_HOME='~/hf' HF_TOKEN_PATH='~/../given' run ls hf://org/repo/model.pt | sed "s|$PWD|PWD|"
HF_TOKEN_PATH=$PWD run ls hf://org/repo/model.pt | sed "s|$PWD|PWD|"
head -c 5000 /dev/zero | tr '\0' a >long
HF_TOKEN_PATH=long run ls hf://org/repo/model.pt
# it is not read without need
run ls data/train.pt -q >/dev/null && echo local
ls
# what is nearly a URL
for path in hf:/org/repo hf:org/repo/model.pt HF:org/repo https:/example.org/m.pt?x=1 http:example.org/m.pt s3:/bucket/key \
    s3a://bucket/key huggingface://org/repo huggingface.co/org/repo gs://bucket/key; do
    run ls "$path"
done
# pages of the Hub
run ls https://huggingface.co/org/repo
run ls 'https://huggingface.co/org/repo/blob/v1/model.safetensors?secret'
HF_ENDPOINT=http://mirror.test/hf run ls http://mirror.test/hf/datasets/org/repo/tree/main/folder/
# options of other tools
for option in --token=secret --revision=v1 --insecure; do
    run ls $option hf://org/repo/model.pt
done
# what is shown of a URL has no query, no user and no password
HF_TOKEN=hf_secret
for url in 'https://example.org/m.pt?secret#x' 'https://example.org/m.pt#secret' 'HTTPS://user:secret@example.org:80/m@1.pt?secret' \
    https://user:sec/secret@example.org/m.pt https://user:a@b/secret@example.org/m.pt \
    'https://user:sec?secret@example.org/m.pt' https://secret@example.org \
    'https://[::1]:80/m@1.pt?secret' 'hf://org/repo@v1/m#1.pt?secret' hf://secret@org/m.pt s3://id:secret@bucket/m.pt \
    https:// 'https://?secret' https://[ https://[/ https://: https://@; do
    ckpt scan --json "$url" 2>/dev/null | grep -o '"file":"[^"]*"' | head -n 1
done
