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

/* add_text_argument - adds TEXT, cut to about MAX_ARGUMENT bytes; returns true if it was cut. */
static bool add_text_argument(json *list, ckpt_str text)
{
    enum { MAX_ARGUMENT = 1000 }; /* about the limit of the text report */
    bool cut = text.len > MAX_ARGUMENT;
    if (cut) {
        text.len = MAX_ARGUMENT;
        while (text.len > MAX_ARGUMENT - 4 && ((unsigned char)text.ptr[text.len] & 0xc0) == 0x80)
            text.len--; /* do not cut a UTF-8 character in two */
    }
    json_str(list, NULL, text);
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

static void add_callable(json *parent, const ckpt_scan_record *record)
{
    struct text t = {0};
    if (record->module.len || record->name.len) {
        json_str(parent, "module", record->module);
        json_str(parent, "name", record->name);
        scan_callable(&t, record);
        json_text(parent, "python3", t.ptr);
        text_free(&t);
    }
    if (record->args)
        add_arguments(parent, record->args);
    if (record->weights_only >= 0)
        json_bool(json_add_object(parent, "weights_only"), "ok", record->weights_only == 1);
    if (record->call && record->error_offset != CKPT_NO_OFFSET)
        json_u64(parent, "before_error", record->error_offset);
}

static void add_member(json *parent, const ckpt_scan_record *record)
{
    json_u64(parent, "bytes", record->bytes);
    json_hex(parent, "sha256", record->sha256, CKPT_DIGEST_MAX);
    if (!record->readers)
        return;
    json *readers = json_add_array(parent, "readers");
    if (record->readers & CKPT_SCAN_BY_DIRECTORY)
        json_text(readers, NULL, "directory");
    if (record->readers & CKPT_SCAN_BY_LOCAL)
        json_text(readers, NULL, "local");
}

static void scan_json_record(const ckpt_scan_record *record)
{
    static const char *const names[] = {"pickle", "call", "finding", "member"};
    json *row = json_object();
    json_text(row, "what", names[record->what]);
    if (record->rule) {
        json_text(row, "code", record->rule->id);
        json_text(row, "rule", record->rule->name);
        json_text(row, "level", ckpt_scan_level_name(record->level));
    }
    if (scan_shows_verdict(record))
        json_text(row, "verdict", ckpt_scan_verdict_name(record->verdict));
    json_str(row, "where", record->where);
    if (record->offset != CKPT_NO_OFFSET)
        json_u64(row, "offset", record->offset);
    if (record->file_offset != CKPT_NO_OFFSET)
        json_u64(row, "file_offset", record->file_offset);
    if (record->opcode)
        json_text(row, "opcode", record->opcode);
    if (record->call)
        json_u64(row, "call", record->call);
    add_callable(row, record);
    if (record->result_used >= 0)
        json_bool(row, "result_used", record->result_used == 1);
    if (record->framed)
        json_bool(row, "framed", true);
    if (record->plain)
        json_bool(row, "plain", true);
    if (record->text.len)
        json_str(row, "message", record->text);
    if (record->found.len)
        json_str(row, "found", record->found);
    if (record->allowed.len)
        json_str(row, "allowed", record->allowed);
    if (record->what == CKPT_SCAN_MEMBER)
        add_member(row, record);
    json_row(row, stdout);
}

/* add_accounting - adds how many bytes of the file are pickles, tensors, text, anything else or unknown. */
static void add_accounting(json *parent, const ckpt_scan_result *result)
{
    json *accounted_by = json_add_object(parent, "accounted_by");
    uint64_t left = result->accounted;
    const struct {
        const char *key;
        uint64_t nbytes;
    } kinds[] = {{"pickles", result->in_pickles}, {"tensors", result->in_tensors}, {"text", result->in_text}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        uint64_t n = kinds[i].nbytes < left ? kinds[i].nbytes : left; /* a byte may be of two kinds */
        json_u64(accounted_by, kinds[i].key, n);
        left -= n;
    }
    json_u64(accounted_by, "other", left);
    json_u64(accounted_by, "unknown", result->bytes - result->accounted);
}

static void scan_json_end(const char *path, const ckpt_scan_result *result, const ckpt_error *err, int code)
{
    json *tail = json_object();
    (void)path;
    json_text(tail, "verdict", scan_verdict_name(scan_verdict(result, code)));
    json_format(tail, result->format);
    json *levels = json_add_object(tail, "levels");
    for (int level = CKPT_SCAN_ERROR; level > CKPT_SCAN_NONE; level--)
        json_u64(levels, ckpt_scan_level_name((ckpt_scan_level)level), result->found[level]);
    json_u64(tail, "members", result->members);
    json_u64(tail, "pickles", result->pickles);
    json_u64(tail, "calls", result->calls);
    json_u64(tail, "bytes", result->bytes);
    json_u64(tail, "accounted", result->accounted);
    add_accounting(tail, result);
    json_bool(tail, "complete",
              !err && result->accounted == result->bytes && !result->found[CKPT_SCAN_INCOMPLETE]);
    if (scan_sha256 && !err)
        json_hex(tail, "sha256", result->sha256, CKPT_DIGEST_MAX);
    json_hex(tail, "lists", lists, CKPT_DIGEST_MAX);
    json_u64(tail, "exit", (uint64_t)code);
    json_end_rows(tail, stdout);
}

const struct scan_report scan_json = {.begin_report = scan_json_begin_report,
                                      .begin_file = scan_json_begin,
                                      .record = scan_json_record,
                                      .end_file = scan_json_end,
                                      .calls = true};
