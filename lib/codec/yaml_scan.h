/* yaml_scan.h - a pull scanner for the tokens of untrusted YAML: it finds the same tokens as PyYAML, or
 * fails. It builds no tree and does not recurse. */
#pragma once

#include "base/error.h"
#include "base/str.h"

enum yaml_token {
    YAML_ERROR,
    YAML_END,
    YAML_SCALAR, /* text: its decoded text */
    YAML_KEY, /* the colon after a key; the key was the last scalar, alias or collection, see key_is_scalar */
    YAML_VALUE,         /* a colon without such a key before it: the key is empty, or began with "? " */
    YAML_TAG,           /* text: the tag, decoded: "!!python/tuple", "!name", "!<tag:…>" */
    YAML_ANCHOR,        /* "&name" */
    YAML_ALIAS,         /* "*name" */
    YAML_TAG_DIRECTIVE, /* "%TAG", which gives tags another meaning */
    YAML_OTHER          /* the beginning or end of a collection or document, an indicator between items */
};

#define YAML_DEPTH    256u  /* most collections within each other */
#define YAML_TEXT_MAX 1024u /* bytes of a scalar or tag that are kept */

/* Where a key may have begun, in one of the collections that are open. */
struct yaml_key {
    bool possible, is_scalar;
    size_t at, line, column;
};

typedef struct {
    ckpt_str bytes;
    size_t pos, line, column; /* column: in characters */
    int64_t indent;           /* of the innermost block collection; -1: none */
    int64_t indents[YAML_DEPTH];
    size_t nindents;
    struct yaml_key keys[YAML_DEPTH]; /* [flow_depth]: of the current collection */
    size_t flow_depth;                /* how many [ and { are open */
    bool allows_key;                  /* a key may begin here */
    bool failed;
    /* of the last token */
    size_t token_at;
    char text[YAML_TEXT_MAX];
    size_t text_length;
    bool text_is_cut, key_is_scalar;
    ckpt_error *err;
} yaml_scan;

/* yaml_init - starts to scan BYTES, which are UTF-8 and must live as long as SCAN. */
void yaml_init(yaml_scan *scan, ckpt_str bytes, ckpt_error *err);
/* yaml_next - returns the next token; its text is in scan->text until the next call. After YAML_ERROR (err is
 * set) always YAML_ERROR. */
enum yaml_token yaml_next(yaml_scan *scan);
/* yaml_text - returns the text of the last token; .ptr NULL: it is longer than YAML_TEXT_MAX. */
ckpt_str yaml_text(const yaml_scan *scan);
