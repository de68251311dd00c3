/* scan_json.c - one object per file: every call and finding, then what came of it. */
#include "json.h"
#include "scan.h"

static void begin(const char *path)
{
    json *head = json_schema("ckpt.scan.v1");
    json_text(head, "file", path);
    json_begin(head, "records", stdout);
}

static void arguments(json *to, const ckpt_value *args)
{
    json *list = json_add_array(to, "args");
    const ckpt_value *key, *arg;
    for (size_t i = 0; ckpt_value_item(args, i, &key, &arg); i++)
        if (ckpt_value_get_type(arg) == CKPT_V_STR || ckpt_value_get_type(arg) == CKPT_V_STR8)
            json_str(list, NULL, ckpt_value_str(arg));
        else
            json_value(list, NULL, arg);
}

static void callable(json *to, const ckpt_scan_record *r)
{
    struct text t = {0};
    if (r->module.len || r->name.len) {
        json_str(to, "module", r->module);
        json_str(to, "name", r->name);
        scan_callable(&t, r);
        json_text(to, "python3", t.ptr);
        text_free(&t);
    }
    if (r->args)
        arguments(to, r->args);
    if (r->weights_only >= 0)
        json_bool(to, "weights_only", r->weights_only == 1);
    if (r->call && r->error_offset != CKPT_NO_OFFSET)
        json_u64(to, "before_error", r->error_offset);
}

static void record(const ckpt_scan_record *r)
{
    static const char *const what[] = {"pickle", "call", "finding"};
    json *row = json_object();
    json_text(row, "what", what[r->what]);
    if (r->rule) {
        json_text(row, "id", r->rule->id);
        json_text(row, "rule", r->rule->name);
        json_text(row, "level", ckpt_scan_level_name(r->level));
    }
    if (r->what == CKPT_SCAN_CALL || r->opcode)
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
    callable(row, r);
    if (r->framed)
        json_bool(row, "framed", true);
    if (r->plain)
        json_bool(row, "plain", true);
    if (r->text.len)
        json_str(row, "text", r->text);
    json_row(row, stdout);
}

static void file(const char *path, const ckpt_scan_result *r, const ckpt_error *err, int code)
{
    json *tail = json_object();
    (void)path;
    json_text(tail, "verdict", scan_verdict_name(scan_verdict(r, code)));
    if (r->format)
        json_text(tail, "format", r->format);
    json *found = json_add_object(tail, "found");
    for (int level = CKPT_SCAN_ERROR; level > CKPT_SCAN_NONE; level--)
        json_u64(found, ckpt_scan_level_name((ckpt_scan_level)level), r->found[level]);
    json_u64(tail, "members", r->members);
    json_u64(tail, "pickles", r->pickles);
    json_u64(tail, "calls", r->calls);
    json_u64(tail, "bytes", r->bytes);
    json_u64(tail, "accounted", r->accounted);
    json_bool(tail, "complete", !err && r->accounted == r->bytes && !r->found[CKPT_SCAN_INCOMPLETE]);
    json_u64(tail, "exit", (uint64_t)code);
    json_end(tail, stdout);
}

const struct scan_report scan_json = {.begin = begin, .record = record, .file = file, .calls = true};
