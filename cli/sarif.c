/* sarif.c - prints findings as SARIF 2.1.0 (OASIS), for code scanning services. A result has a region if its
 * bytes are in the file uncompressed. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "files.h"
#include "json.h"
#include "remote.h"
#include "scan.h"

static const char *current_path;
static json *tail, *invocation; /* what follows the results; the only item of its "invocations" */
static json *notifications;     /* of the invocation; NULL: none yet */

static const char *sarif_level_name(ckpt_scan_level level)
{
    return level == CKPT_SCAN_INCOMPLETE ? "warning" : ckpt_scan_level_name(level);
}

static void add_rules(json *driver)
{
    json *rules = json_add_array(driver, "rules");
    const ckpt_scan_rule *rule;
    for (size_t i = 0; (rule = ckpt_scan_rule_at(i)); i++) {
        json *item = json_add_object(rules, NULL);
        json_text(item, "id", rule->id);
        json_text(item, "name", rule->name);
        json_text(json_add_object(item, "shortDescription"), "text", rule->text);
        json_text(json_add_object(item, "defaultConfiguration"), "level", sarif_level_name(rule->level));
    }
}

/* add_uri - adds PATH as a URI reference: bytes other than unreserved characters and '/' become %XX. In a
 * URL, reserved characters are as they are, and in one of the web so is '%'. */
static void add_uri(struct text *text, const char *path)
{
    bool is_web = strncasecmp(path, "http", 4) == 0;
    const char *kept = !remote_is_url(path) ? "-._~/"
                       : is_web             ? "-._~/%:@!$&'()*+,;=[]"
                                            : "-._~/:@!$&'()*+,;=";
    for (const char *c = path; *c; c++) {
        unsigned char b = (unsigned char)*c;
        if ((b < 0x80 && isalnum(b)) || strchr(kept, b))
            text_bytes(text, c, 1);
        else
            text_addf(text, "%%%02X", b);
    }
}

static void sarif_begin_report(void)
{
    tail = json_object();
    invocation = json_add_object(json_add_array(tail, "invocations"), NULL);
    json *head = json_object();
    json_text(head, "version", "2.1.0");
    json_text(head, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    json_print_head(head, "runs", stdout);
    json *run = json_object(), *driver = json_add_object(json_add_object(run, "tool"), "driver");
    json_text(driver, "name", "ckpt");
    json_text(driver, "version", ckpt_version());
    add_rules(driver);
    put_text(stdout, "[");
    json_begin_rows(run, "results", stdout);
}

static void sarif_begin_file(const char *path) { current_path = path; }

static void add_location(json *parent, const char *path, const ckpt_scan_record *record)
{
    struct text uri = {0};
    json *location = json_add_object(json_add_array(parent, "locations"), NULL);
    json *physical = json_add_object(location, "physicalLocation");
    add_uri(&uri, path);
    json_text(json_add_object(physical, "artifactLocation"), "uri", uri.ptr ? uri.ptr : "");
    text_free(&uri);
    if (!record)
        return;
    if (record->file_offset != CKPT_NO_OFFSET)
        json_u64(json_add_object(physical, "region"), "byteOffset", record->file_offset);
    if (record->where.len) {
        json *logical = json_add_object(json_add_array(location, "logicalLocations"), NULL);
        json_str(logical, "fullyQualifiedName", record->where);
        json_text(logical, "kind", "member");
    }
}

static void sarif_record(const ckpt_scan_record *record)
{
    struct text message = {0};
    if (!record->rule)
        return;
    json *row = json_object();
    json_text(row, "ruleId", record->rule->id);
    json_text(row, "level", sarif_level_name(record->level));
    scan_message(&message, record);
    json_text(json_add_object(row, "message"), "text", message.len ? message.ptr : record->rule->text);
    add_location(row, current_path, record);
    json *properties = json_add_object(row, "properties");
    json_text(properties, "level", ckpt_scan_level_name(record->level));
    if (scan_shows_verdict(record))
        json_text(properties, "verdict", ckpt_scan_verdict_name(record->verdict));
    if (record->offset != CKPT_NO_OFFSET)
        json_u64(properties, "memberOffset", record->offset);
    if (record->opcode)
        json_text(properties, "opcode", record->opcode);
    json_row(row, stdout);
    text_free(&message);
}

/* sarif_end_file - adds a result if not all of PATH was scanned: a file without results counts as clean. */
static void sarif_end_file(const char *path, const ckpt_scan_result *result, const ckpt_error *err, int code)
{
    /* what was found to be incomplete is a result already */
    if (!err && (code != EXIT_TROUBLE || result->found[CKPT_SCAN_INCOMPLETE]))
        return;
    json *row = json_object();
    json_text(row, "ruleId", "FMT001"); /* unknown-format */
    json_text(row, "level", "warning");
    json_text(json_add_object(row, "message"), "text", err ? err->what : "not every byte is accounted for");
    add_location(row, path, NULL);
    json_text(json_add_object(row, "properties"), "level", ckpt_scan_level_name(CKPT_SCAN_INCOMPLETE));
    json_row(row, stdout);
}

/* notify - adds a notification that COUNT things of the folder PATH were not scanned: ONE, or MANY. */
static void notify(const char *path, uint64_t count, const char *level, const char *one, const char *many)
{
    char message[128];
    if (count == 0)
        return;
    snprintf(message, sizeof message, "%llu %s", (unsigned long long)count, count == 1 ? one : many);
    notifications = notifications ? notifications : json_add_array(invocation, "toolExecutionNotifications");
    json *item = json_add_object(notifications, NULL);
    json_text(item, "level", level);
    json_text(json_add_object(item, "message"), "text", message);
    add_location(item, path, NULL);
}

static void sarif_end_folder(const char *path, const struct folder_walk *walk)
{
    const char *is_other = "skipped that is not a file (a pipe, socket or device)";
    notify(path, walk->nlinks_outside, "warning", "symbolic link that leads out of the folder, not followed",
           "symbolic links that lead out of the folder, not followed");
    notify(path, walk->nlinks - walk->nlinks_outside, "note", "symbolic link not followed",
           "symbolic links not followed");
    notify(path, walk->nothers, "note", is_other, "skipped that are not files (pipes, sockets, devices)");
    notify(path, walk->nunread, "error", "folder that cannot be read", "folders that cannot be read");
}

static void sarif_end_report(int code, bool complete)
{
    json_bool(invocation, "executionSuccessful", complete);
    json_u64(invocation, "exitCode", (uint64_t)code);
    json_text(tail, "columnKind", "utf16CodeUnits");
    json_end_rows(tail, stdout);
    put_text(stdout, "]}\n");
}

const struct scan_report scan_sarif = {.begin_report = sarif_begin_report,
                                       .begin_file = sarif_begin_file,
                                       .record = sarif_record,
                                       .end_file = sarif_end_file,
                                       .end_folder = sarif_end_folder,
                                       .end_report = sarif_end_report};
