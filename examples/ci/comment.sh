#!/usr/bin/env bash
# comment.sh NUMBER FILE - makes FILE the comment of review.sh on pull request NUMBER of $GITHUB_REPOSITORY: the one that
# an earlier run wrote is replaced. Needs `gh` with $GH_TOKEN.
set -euo pipefail
number=${1:?usage: comment.sh NUMBER FILE} file=${2:?usage: comment.sh NUMBER FILE}
[[ $number =~ ^[1-9][0-9]*$ ]] || { echo "comment.sh: no number of a pull request: $number" >&2; exit 2; }
[[ $(head -n 1 "$file") == '<!-- ckpt-review -->' ]] || { echo "comment.sh: $file is not from review.sh" >&2; exit 2; }
comments=repos/$GITHUB_REPOSITORY/issues/$number/comments
id=$(gh api --paginate "$comments" --jq \
    '.[] | select(.user.type == "Bot" and (.body | startswith("<!-- ckpt-review -->"))) | .id' | head -n 1)
if [[ -n $id ]]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$file"
else
    gh api --silent --method POST "$comments" -F "body=@$file"
fi
