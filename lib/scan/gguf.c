/*
 * gguf.c - scans GGUF, as codec/gguf reads it. Nothing in it runs when it is loaded; but its chat template is
 * a Jinja program, which runs when a chat is rendered (CVE-2024-34359), and a name can hold control
 * characters for the terminal.
 */
#include "codec/gguf.h"

#include <inttypes.h>

#include "base/utf8.h"
#include "scan/scan.h"

static ckpt_status visit_text(void *user, ckpt_str text, uint64_t at, const char *what, ckpt_error *err)
{
    const struct scanned *in = user;
    (void)err;
    uint32_t control;
    return utf8_find_control(text, &control)
               ? SCAN_FOUND(in, SCAN_CONTROL_CHARACTER, at, "%s holds the character {0x%02" PRIx32 "}", what,
                            control)
               : CKPT_OK;
}

static ckpt_status visit_pair(void *user, const struct gguf_pair *pair, ckpt_error *err)
{
    const struct scanned *in = user;
    (void)err;
    if (pair->type != GGUF_STRING || !str_has(pair->key, STR_LIT("chat_template")))
        return CKPT_OK;
    return SCAN_FOUND(in, SCAN_CHAT_TEMPLATE, pair->value_offset, "a chat template of %" PRIu64 " bytes",
                      pair->value_size);
}

ckpt_status scan_gguf(const struct scanned *in, uint64_t *known_bytes, ckpt_error *err)
{
    struct scanner *x = in->x;
    struct scanned file = *in;
    struct gguf g = {.src = in->src, .a = x->a, .on_text = visit_text, .on_pair = visit_pair, .user = &file};
    ckpt_error why;
    x->format = x->depth ? x->format : "gguf";
    ckpt_status st = gguf_read(&g, &why);
    if (st == CKPT_OK && g.ggml_error.status) {
        why = g.ggml_error;
        g.error_offset = g.ggml_error_offset;
        st = g.ggml_error.status;
    } else if (st == CKPT_OK) {
        st = gguf_check_end(&g, &why);
    }
    if (st == CKPT_OK) {
        bool has_data = g.data_offset < in->src->size; /* false if all tensors are empty */
        scan_count_bytes(in->src, &x->scan->result->in_tensors, has_data ? in->src->size - g.data_offset : 0);
        *known_bytes += in->src->size; /* the sum is at most the size of the file */
        return CKPT_OK;
    }
    return scan_report_read_error(in, g.error_offset, &why, err);
}
