/* scan_json.c - prints one JSON object per file: every call and finding, then the result. */
#include <stdlib.h>

#include "json.h"
#include "scan.h"

bool scan_sha256;

static uint8_t lists[CKPT_DIGEST_MAX]; /* checksum of the lists of known names */

/* scan_json_begin_report - prepares what needs libcrypto, so that no report has begun when that fails. */
static void scan_json_begin_report(void)
{
    ckpt_error why;
    if (ckpt_scan_lists(lists, &why) != CKPT_OK)
        exit(report_error(&why, NULL));
}

static void scan_json_begin(const char *path)
{
    json *head = json_schema("ckpt.scan.v1");
    json_text(head, "file", path);
    json_begin_rows(head, "records", stdout);
}

/* add_text_argument - adds S, cut to about MAX_ARGUMENT bytes; returns true if it was cut. */
static bool add_text_argument(json *list, ckpt_str s)
{
    enum { MAX_ARGUMENT = 1000 }; /* about the limit of the text report */
    bool cut = s.len > MAX_ARGUMENT;
    if (cut) {
        s.len = MAX_ARGUMENT;
        while (s.len > MAX_ARGUMENT - 4 && ((unsigned char)s.ptr[s.len] & 0xc0) == 0x80)
            s.len--; /* do not cut a UTF-8 character in two */
    }
    json_str(list, NULL, s);
    return cut;
}

static void add_arguments(json *parent, const ckpt_value *args)
{
    json *list = json_add_array(parent, "args");
    const ckpt_value *key, *arg;
    bool cut = false;
    for (size_t i = 0; ckpt_value_item(args, i, &key, &arg); i++)
        if (ckpt_value_get_type(arg) == CKPT_V_STR || ckpt_value_get_type(arg) == CKPT_V_STR8)
            cut = add_text_argument(list, ckpt_value_str(arg)) || cut;
        else
            json_value(list, NULL, arg);
    if (cut)
        json_bool(parent, "args_cut", true);
}

static void add_callable(json *parent, const ckpt_scan_record *r)
{
    struct text t = {0};
    if (r->module.len || r->name.len) {
        json_str(parent, "module", r->module);
        json_str(parent, "name", r->name);
        scan_callable(&t, r);
        json_text(parent, "python3", t.ptr);
        text_free(&t);
    }
    if (r->args)
        add_arguments(parent, r->args);
    if (r->weights_only >= 0)
        json_bool(json_add_object(parent, "weights_only"), "ok", r->weights_only == 1);
    if (r->call && r->error_offset != CKPT_NO_OFFSET)
        json_u64(parent, "before_error", r->error_offset);
}

static void add_member(json *parent, const ckpt_scan_record *r)
{
    json_u64(parent, "bytes", r->bytes);
    json_hex(parent, "sha256", r->sha256, CKPT_DIGEST_MAX);
    if (!r->readers)
        return;
    json *readers = json_add_array(parent, "readers");
    if (r->readers & CKPT_SCAN_BY_DIRECTORY)
        json_text(readers, NULL, "directory");
    if (r->readers & CKPT_SCAN_BY_LOCAL)
        json_text(readers, NULL, "local");
}

static void scan_json_record(const ckpt_scan_record *r)
{
    static const char *const names[] = {"pickle", "call", "finding", "member"};
    json *row = json_object();
    json_text(row, "what", names[r->what]);
    if (r->rule) {
        json_text(row, "code", r->rule->id);
        json_text(row, "rule", r->rule->name);
        json_text(row, "level", ckpt_scan_level_name(r->level));
    }
    if (scan_shows_verdict(r))
        json_text(row, "verdict", ckpt_scan_verdict_name(r->verdict));
    json_str(row, "where", r->where);
    if (r->offset != CKPT_NO_OFFSET)
        json_u64(row, "offset", r->offset);
    if (r->file_offset != CKPT_NO_OFFSET)
        json_u64(row, "file_offset", r->file_offset);
    if (r->opcode)
        json_text(row, "opcode", r->opcode);
    if (r->call)
        json_u64(row, "call", r->call);
    add_callable(row, r);
    if (r->result_used >= 0)
        json_bool(row, "result_used", r->result_used == 1);
    if (r->framed)
        json_bool(row, "framed", true);
    if (r->plain)
        json_bool(row, "plain", true);
    if (r->text.len)
        json_str(row, "message", r->text);
    if (r->found.len)
        json_str(row, "found", r->found);
    if (r->allowed.len)
        json_str(row, "allowed", r->allowed);
    if (r->what == CKPT_SCAN_MEMBER)
        add_member(row, r);
    json_row(row, stdout);
}

/* add_accounting - adds how many bytes of the file are pickles, tensors, text, anything else or unknown. */
static void add_accounting(json *parent, const ckpt_scan_result *r)
{
    json *accounted_by = json_add_object(parent, "accounted_by");
    uint64_t left = r->accounted;
    const struct {
        const char *key;
        uint64_t nbytes;
    } kinds[] = {{"pickles", r->in_pickles}, {"tensors", r->in_tensors}, {"text", r->in_text}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint64_t n = kinds[i].nbytes < left ? kinds[i].nbytes : left; /* a byte may be of two kinds */
        json_u64(accounted_by, kinds[i].key, n);
        left -= n;
    }
    json_u64(accounted_by, "other", left);
    json_u64(accounted_by, "unknown", r->bytes - r->accounted);
}

static void scan_json_end(const char *path, const ckpt_scan_result *r, const ckpt_error *err, int code)
{
    json *tail = json_object();
    (void)path;
    json_text(tail, "verdict", scan_verdict_name(scan_verdict(r, code)));
    json_format(tail, r->format);
    json *levels = json_add_object(tail, "levels");
    for (int level = CKPT_SCAN_ERROR; level > CKPT_SCAN_NONE; level--)
        json_u64(levels, ckpt_scan_level_name((ckpt_scan_level)level), r->found[level]);
    json_u64(tail, "members", r->members);
    json_u64(tail, "pickles", r->pickles);
    json_u64(tail, "calls", r->calls);
    json_u64(tail, "bytes", r->bytes);
    json_u64(tail, "accounted", r->accounted);
    add_accounting(tail, r);
    json_bool(tail, "complete", !err && r->accounted == r->bytes && !r->found[CKPT_SCAN_INCOMPLETE]);
    if (scan_sha256 && !err)
        json_hex(tail, "sha256", r->sha256, CKPT_DIGEST_MAX);
    json_hex(tail, "lists", lists, CKPT_DIGEST_MAX);
    json_u64(tail, "exit", (uint64_t)code);
    json_end_rows(tail, stdout);
}

const struct scan_report scan_json = {.begin_report = scan_json_begin_report,
                                      .begin_file = scan_json_begin,
                                      .record = scan_json_record,
                                      .end_file = scan_json_end,
                                      .calls = true};
