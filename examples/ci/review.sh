#!/usr/bin/env bash
# review.sh BASE [OUT] - reviews the checkpoints that changed since HEAD left the commit BASE, for CI: is each intact,
# would loading it run code, what changed? The clone must have the history up to BASE.
#
# Writes to the folder OUT (ckpt-review): comment.md, for a comment on the merge request, and scan.sarif. Exits with 1
# if a checkpoint is damaged or would run code, 2 if something cannot be done.
#
# CKPT_FILES is an extended regular expression of the paths that are checkpoints.
# Paths and names of tensors are what somebody typed: nothing of them is run or becomes markup.
set -euo pipefail
export LC_ALL=C.UTF-8

base=${1:?usage: review.sh BASE [OUT]} out=${2:-ckpt-review}
files=${CKPT_FILES:-'\.(pt|pth|ckpt|safetensors|gguf|npz|npy|h5|keras)$|(^|/)(pytorch|adapter)_model[^/]*\.bin$'}
max_bytes=60000 # a comment of GitHub has at most 65,536 characters
status=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(git rev-parse --show-toplevel)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# find_changed FILTER - sets `changed` to the paths that --diff-filter=FILTER chooses
find_changed()
{
    local path
    changed=()
    git diff --name-only -z --no-renames --diff-filter="$1" "$base...HEAD" >"$work/paths"
    while IFS= read -r -d '' path; do
        ! [[ $path =~ $files ]] || changed+=("$path")
    done <"$work/paths"
}

# fetch_lfs PATH… - makes pointers of Git LFS in the work tree the files that they stand for. `git lfs` takes patterns;
# if a path has a character that could be a part of one, all pointers are replaced.
fetch_lfs()
{
    local path list=
    git lfs version >/dev/null 2>&1 || return 0
    for path; do
        [[ $path != *[!A-Za-z0-9._/-]* ]] || { git lfs pull; return; }
        list+=${list:+,}$path
    done
    git lfs pull --include="$list"
}

# show_path PATH - prints PATH as code of Markdown
show_path()
{
    local path=${1//\`/\'}
    printf '`%s`' "${path//[[:cntrl:]]/?}"
}

# show_output - prints standard input as a block of code, which no line of it can end
show_output() { awk 'NR <= 30 { print "    " $0 } END { if (NR > 30) print "    … and " NR - 30 " more lines" }'; }

# copy_base PATH - copies the file that PATH was where HEAD left BASE to $work, as `old` points out; fails if
# there was none
copy_base()
{
    old=$work/base.${1##*.}
    [[ ${1##*.} != *[!A-Za-z0-9]* ]] || old=$work/base
    git cat-file -e "$base:$1" 2>/dev/null && GIT_LFS_SKIP_SMUDGE=0 git cat-file --filters "$base:$1" >"$old"
}

# show_changes PATH - prints what changed in PATH, as a table
show_changes()
{
    local new code=0
    if ! copy_base "$1"; then
        printf 'new, %d tensors\n' "$(ckpt ls --no-filename --tsv -- "$1" 2>/dev/null | wc -l)"
        return
    fi
    new=$work/head${old#"$work/base"}
    ln -sf "$PWD/$1" "$new"
    (cd "$work" && ckpt diff --md -- "${old##*/}" "${new##*/}") >"$work/table" 2>"$work/why" || code=$?
    if [[ $code -gt 1 ]]; then
        show_output <"$work/why"
    elif [[ $code -eq 0 ]]; then
        echo 'no tensor changed'
    else
        cat "$work/table"
    fi
    rm -f "$new" "$old"
}

# leads_out PATH - succeeds if PATH is a link to a file that is not in the repository, such as one of the runner
leads_out() { [[ -L $1 && $(realpath -m -- "$1") != "$(pwd -P)"/* ]]; }

# review PATH - prints a section about PATH; fails if it is damaged or would run code
review()
{
    local good=0
    printf '\n### %s\n\n' "$(show_path "$1")"
    if leads_out "$1"; then
        echo 'a link that leads out of the repository; not read'
        return 1
    fi
    ckpt verify -q -- "$1" >"$work/why" 2>&1 || { good=1; show_output <"$work/why"; echo; }
    ckpt scan -q -- "$1" >"$work/why" 2>&1 || { good=1; show_output <"$work/why"; echo; }
    [[ $good -ne 0 ]] || show_changes "$1"
    return "$good"
}

git rev-parse --verify --quiet "$base^{commit}" >/dev/null || { echo "review.sh: no commit $base; is the clone shallow?" >&2; exit 2; }
base=$(git merge-base "$base" HEAD) || { echo 'review.sh: HEAD has no commit in common with the base' >&2; exit 2; }
find_changed D
removed=("${changed[@]}")
find_changed d
[[ ${#changed[@]} -eq 0 ]] || fetch_lfs "${changed[@]}"
{
    echo '<!-- ckpt-review -->'
    [[ ${#changed[@]} -gt 0 || ${#removed[@]} -gt 0 ]] || echo 'No checkpoint changed.'
    for path in "${changed[@]}"; do
        review "$path" || status=1
    done
    [[ ${#removed[@]} -eq 0 ]] || printf '\n### removed\n\n'
    for path in "${removed[@]}"; do
        printf -- '- %s\n' "$(show_path "$path")"
    done
} >"$work/comment"
awk -v max="$max_bytes" '{ n += length($0) + 1; if (n <= max) print; else left++ }
    END { if (left) printf "\n… and %d more lines\n", left }' "$work/comment" >"$out/comment.md"
read_paths=()
for path in "${changed[@]}"; do
    leads_out "$path" || read_paths+=("$path")
done
rm -f "$out/scan.sarif"
[[ ${#read_paths[@]} -eq 0 ]] || ckpt scan --sarif -- "${read_paths[@]}" >"$out/scan.sarif" || [[ $? -eq 1 ]]
exit "$status"
