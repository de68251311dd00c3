#!/bin/sh
# PyYAML 6.0.4 reads a list in brackets by two parsers, and they disagree about "?" inside a plain scalar: the one in C
# (CSafeLoader, libyaml) takes `[http://h/p?q=1]` as a list of one address, the one in Python (SafeLoader, which
# yaml.safe_load uses) raises a ParserError. YAML 1.2 allows the "?" there. So a configuration that one program reads is
# an error in another with the same library, depending on which loader it picked. In block style both agree.
#
# Output seen:
#   - http://h/p?q=1      python: ['http://h/p?q=1']   c: ['http://h/p?q=1']
#   [http://h/p?q=1]      python: ParserError          c: ['http://h/p?q=1']
#   {url: http://h/p?q=1} python: ParserError          c: {'url': 'http://h/p?q=1'}
#   [what?]               python: ParserError          c: ['what?']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --only-binary :all: PyYAML==6.0.4
cat >"$folder/want" <<'END'
- http://h/p?q=1      python: ['http://h/p?q=1']   c: ['http://h/p?q=1']
[http://h/p?q=1]      python: ParserError          c: ['http://h/p?q=1']
{url: http://h/p?q=1} python: ParserError          c: {'url': 'http://h/p?q=1'}
[what?]               python: ParserError          c: ['what?']
END
"$folder/venv/bin/python" - >"$folder/got" <<'END'
import yaml


def load(text, loader):
    try:
        return repr(yaml.load(text, loader))
    except yaml.YAMLError as error:
        return type(error).__name__


for text in "- http://h/p?q=1", "[http://h/p?q=1]", "{url: http://h/p?q=1}", "[what?]":
    print(f"{text:21} python: {load(text, yaml.SafeLoader):20} c: {load(text, yaml.CSafeLoader)}")
END
diff "$folder/want" "$folder/got"
echo 'as seen'
