#!/bin/sh
# dist/recipes.sh - checks conda's recipe and Homebrew's formula, filled in with a sum that is made up: nothing is left
# to fill in, Ruby and YAML parse them, and the recipe matches the schema of conda's recipes if SCHEMA names that file.
set -u
part=recipes VERSION=${VERSION:-0.1.0}
. tests/check.sh
sum=$(printf x | sha256sum | cut -d ' ' -f 1)
mkdir -p "$tmp/dist/release"
recipes=$tmp/dist/recipes
fill() { B=$tmp sh packaging/recipes.sh https://example.org/download/v1 https://example.org/ckpt; }

needs_release() { ! fill; }
check 'without a release, nothing is filled in' needs_release
printf '%s  ckpt-%s-source.tar.xz\n' "$sum" "$VERSION" >"$tmp/dist/release/SHA256SUMS"
check 'version, sum and addresses are filled in' fill
is_full() { ! grep -n '@[A-Z0-9]*@' "$recipes"/* && grep -q "$sum" "$1" && grep -q "$VERSION" "$1"; }
check 'the recipe has all' is_full "$recipes/recipe.yaml"
check 'the formula has all' is_full "$recipes/ckpt.rb"

if command -v ruby >/dev/null 2>&1; then
    check 'the formula is valid Ruby' ruby -wc "$recipes/ckpt.rb"
else
    skip 'there is no ruby, so that the formula was not parsed'
fi
if python3 -c 'import yaml' 2>/dev/null; then
    check 'the recipe is valid YAML' \
        python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))' "$recipes/recipe.yaml"
else
    skip 'Python has no yaml, so that the recipe was not parsed'
fi
matches()
{
    python3 -c 'import json, sys, yaml, jsonschema
jsonschema.validate(yaml.safe_load(open(sys.argv[1])), json.load(open(sys.argv[2])))' "$recipes/recipe.yaml" "$SCHEMA"
}
if [ -n "${SCHEMA:-}" ] && python3 -c 'import jsonschema, yaml' 2>/dev/null; then
    check 'the recipe matches the schema' matches
else
    skip 'no SCHEMA=FILE of conda recipes (schema.json of prefix-dev/recipe-format), or no jsonschema for Python'
fi
summary
