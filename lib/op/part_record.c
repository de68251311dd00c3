/* part_record.c - see part_record.h. */
#include "op/part_record.h"

#include <stdio.h>

#include "base/text.h"
#include "codec/json_scan.h"
#include "core/value.h"

#define RECORD_MAX (UINT64_C(1) << 28) /* bytes of a file */

void part_id_format(const uint8_t id[PART_DIGEST_BYTES], char out[PART_ID_TEXT])
{
    for (size_t i = 0; i < PART_DIGEST_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", id[i]);
}

void part_record_name(uint32_t part, uint32_t parts, char out[PART_RECORD_NAME])
{
    (void)snprintf(out, PART_RECORD_NAME, "part-%04u-of-%04u.json", part, parts);
}

bool part_record_is_name(ckpt_str name)
{
    return str_starts(name, STR_LIT("part-")) && str_ends(name, STR_LIT(".json"));
}

bool part_name_is_reserved(ckpt_str name)
{
    return str_is(name, PART_PLAN_NAME) || part_record_is_name(name) ||
           (str_starts(name, STR_LIT("failed-")) && str_ends(name, STR_LIT(".json")));
}

void part_failure_name(uint32_t part, char out[PART_RECORD_NAME])
{
    (void)snprintf(out, PART_RECORD_NAME, "failed-%04u.json", part);
}

void part_job_record_name(const struct part_job *job, uint32_t part, char out[PART_RECORD_NAME])
{
    if (job->command.len)
        (void)snprintf(out, PART_RECORD_NAME, "part-%04u-of-%04u.results", part, job->parts);
    else
        part_record_name(part, job->parts, out);
}

bool part_is_command(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < 'a' || text.ptr[i] > 'z')
            return false;
    return text.len && text.len <= 16;
}

/* -------------------------------------------------------------------- write */

static void put_number(buf *out, const char *before, uint64_t number)
{
    buf_printf(out, "%s%llu", before, (unsigned long long)number);
}

static void put_digits(buf *out, const char *key, const char *digits)
{
    buf_printf(out, ",\"%s\":\"%s\"", key, digits);
}

static void put_head(buf *out, const char *schema, const char *id)
{
    buf_printf(out, "{\"schema\":\"%s\"", schema);
    put_digits(out, "plan_id", id);
}

void part_job_put(buf *out, const struct part_job *job)
{
    put_head(out, "ckpt.part-plan.v1", job->id);
    put_number(out, ",\"parts\":", job->parts);
    if (job->command.len) {
        BUF_PUT_TEXTS(out, STR_LIT(",\"command\":\""), job->command, STR_LIT("\"}\n"));
        return;
    }
    put_digits(out, "inputs", job->inputs);
    buf_printf(out, ",\"unit\":\"%s\",\"target\":", job->by_file ? "file" : "range");
    json_quote(out, job->target);
    buf_put_cstr(out, ",\"files\":[");
    for (size_t i = 0; i < job->nfiles; i++) {
        buf_put_cstr(out, i ? ",[" : "[");
        json_quote(out, job->files[i].name);
        put_number(out, ",", job->files[i].size);
        buf_byte(out, ']');
    }
    buf_put_cstr(out, "],\"part_bytes\":[");
    for (uint32_t i = 0; i < job->parts; i++)
        put_number(out, i ? "," : "", job->part_bytes[i]);
    buf_put_cstr(out, "]}\n");
}

static void put_range(buf *out, const struct part_range *range)
{
    char digits[PART_ID_TEXT];
    part_id_format(range->digest, digits);
    put_number(out, "[", range->file);
    put_number(out, ",", range->from);
    put_number(out, ",", range->to);
    buf_printf(out, ",\"%s\"]", digits);
}

static void put_checksum(buf *out, const struct part_checksum *checksum)
{
    put_number(out, "[", checksum->row);
    put_number(out, ",", checksum->from);
    put_number(out, ",", checksum->nbytes);
    put_number(out, ",", checksum->crc);
    buf_printf(out, ",\"%s\"", checksum->is_crc32c ? "crc32c" : "crc32");
    put_number(out, ",", checksum->total);
    put_number(out, ",", checksum->recorded);
    buf_byte(out, ',');
    json_quote(out, checksum->name);
    buf_byte(out, ']');
}

void part_record_put(buf *out, const struct part_record *record)
{
    put_head(out, "ckpt.part.v1", record->id);
    put_number(out, ",\"part\":", record->part);
    put_number(out, ",\"parts\":", record->parts);
    buf_printf(out, ",\"done\":%s", record->done ? "true" : "false");
    put_number(out, ",\"overflowed\":", record->overflowed);
    buf_put_cstr(out, ",\"ranges\":[");
    for (size_t i = 0; i < record->nranges; i++) {
        buf_put_cstr(out, i ? ",\n" : "\n");
        put_range(out, &record->ranges[i]);
    }
    buf_put_cstr(out, "],\"checksums\":[");
    for (size_t i = 0; i < record->nchecksums; i++) {
        buf_put_cstr(out, i ? ",\n" : "\n");
        put_checksum(out, &record->checksums[i]);
    }
    buf_put_cstr(out, "]}\n");
}

void part_failure_put(buf *out, const char *id, uint32_t part, const ckpt_error *err)
{
    char line[1400];
    put_head(out, "ckpt.part-failure.v1", id);
    put_number(out, ",\"part\":", part);
    buf_put_cstr(out, ",\"message\":");
    json_quote(out, str_c(ckpt_error_text(err, line, sizeof line)));
    buf_put_cstr(out, "}\n");
}

/* --------------------------------------------------------------------- read */

static ckpt_status fail_malformed(const char *what, ckpt_error *err)
{
    return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "malformed record of a part: %s", what);
}

/* read_document - reads the file PATH, whose "schema" must be SCHEMA. */
static ckpt_status read_document(const char *path, const char *schema, arena *a, ckpt_value **out,
                                 ckpt_error *err)
{
    ckpt_str text, found;
    CKPT_TRY(source_read_whole_file(path, RECORD_MAX, a, &text, err));
    CKPT_TRY(json_read_value(text, 0, a, out, err));
    return value_text(value_get(*out, "schema"), &found) && str_is(found, schema)
               ? CKPT_OK
               : fail_malformed("not of its schema", err);
}

/* read_digits - reads the hexadecimal digits of a digest. */
static bool read_digits(const ckpt_value *from, char out[PART_ID_TEXT])
{
    ckpt_str id;
    if (!value_text(from, &id) || id.len != PART_ID_TEXT - 1)
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (str_digit(id.ptr[i]) > 15)
            return false;
    memcpy(out, id.ptr, id.len);
    out[id.len] = '\0';
    return true;
}

static bool read_u32(const ckpt_value *value, uint32_t *out)
{
    uint64_t n;
    if (!value_size(value, &n) || n > UINT32_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* get_list - returns the list KEY of FROM and sets *COUNT to its length; NULL: it is none. */
static const ckpt_value *get_list(const ckpt_value *from, const char *key, uint32_t *count)
{
    const ckpt_value *list = value_get(from, key);
    *count = list && list->type == CKPT_V_LIST ? value_count(list) : 0;
    return list && list->type == CKPT_V_LIST ? list : NULL;
}

/* is_file_name - returns true if NAME is that of a file in a folder. */
static bool is_file_name(ckpt_str name)
{
    return name.len && !memchr(name.ptr, '/', name.len) && !memchr(name.ptr, 0, name.len) &&
           !str_is(name, ".") && !str_is(name, "..");
}

/* read_file_name - sets *OUT to the file name FROM, NUL-terminated. */
static bool read_file_name(const ckpt_value *from, arena *a, ckpt_str *out)
{
    ckpt_str name;
    if (!value_text(from, &name) || !is_file_name(name))
        return false;
    *out = arena_str(a, name);
    return out->ptr != NULL;
}

static bool read_file(const ckpt_value *from, arena *a, struct part_file *out)
{
    return from && read_file_name(value_item(from, 0), a, &out->name) && !part_name_is_reserved(out->name) &&
           value_size(value_item(from, 1), &out->size);
}

static bool read_files(const ckpt_value *from, arena *a, struct part_job *out)
{
    uint32_t count;
    const ckpt_value *files = get_list(from, "files", &count);
    out->nfiles = count;
    out->files = arena_array(a, count, sizeof *out->files);
    bool ok = files && count && out->files;
    for (uint32_t i = 0; ok && i < count; i++)
        ok = read_file(value_item(files, i), a, &out->files[i]);
    return ok;
}

static bool read_part_bytes(const ckpt_value *from, arena *a, struct part_job *out)
{
    uint32_t count;
    const ckpt_value *list = get_list(from, "part_bytes", &count);
    out->part_bytes = arena_array(a, count, sizeof *out->part_bytes);
    bool ok = list && count == out->parts && out->part_bytes;
    for (uint32_t i = 0; ok && i < count; i++)
        ok = value_size(value_item(list, i), &out->part_bytes[i]);
    return ok;
}

/* read_command - sets the command and the target in OUT, which are one, and the bytes of the parts, which are
 * not known, if FROM is a plan of results. */
static bool read_command(const ckpt_value *from, arena *a, struct part_job *out)
{
    ckpt_str command;
    if (!value_text(value_get(from, "command"), &command) || !part_is_command(command))
        return false;
    out->command = out->target = arena_str(a, command);
    out->part_bytes = arena_array(a, out->parts, sizeof *out->part_bytes);
    return out->command.ptr && out->part_bytes;
}

static bool read_output(const ckpt_value *from, arena *a, struct part_job *out)
{
    ckpt_str unit;
    if (!read_digits(value_get(from, "inputs"), out->inputs) || !value_text(value_get(from, "unit"), &unit))
        return false;
    out->by_file = str_is(unit, "file");
    return read_file_name(value_get(from, "target"), a, &out->target) && read_files(from, a, out) &&
           read_part_bytes(from, a, out);
}

ckpt_status part_job_read(const char *path, arena *a, struct part_job *out, ckpt_error *err)
{
    ckpt_value *v;
    *out = (struct part_job){0};
    ckpt_status st = read_document(path, "ckpt.part-plan.v1", a, &v, err);
    if (st == CKPT_OK &&
        !(read_digits(value_get(v, "plan_id"), out->id) && read_u32(value_get(v, "parts"), &out->parts) &&
          out->parts && out->parts <= PART_MAX &&
          (value_get(v, "command") ? read_command(v, a, out) : read_output(v, a, out))))
        st = fail_malformed("a key is missing or has a wrong type", err);
    return name_file_if_failed(st, path, err);
}

static bool read_digest(const ckpt_value *from, uint8_t out[PART_DIGEST_BYTES])
{
    ckpt_str digits;
    if (!value_text(from, &digits) || digits.len != 2 * PART_DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < PART_DIGEST_BYTES; i++) {
        unsigned high = str_digit(digits.ptr[2 * i]), low = str_digit(digits.ptr[2 * i + 1]);
        if (high > 15 || low > 15)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_range(const ckpt_value *from, const struct part_job *job, struct part_range *out)
{
    return from && read_u32(value_item(from, 0), &out->file) && out->file < job->nfiles &&
           value_size(value_item(from, 1), &out->from) && value_size(value_item(from, 2), &out->to) &&
           out->from < out->to && out->to <= job->files[out->file].size &&
           read_digest(value_item(from, 3), out->digest);
}

static bool read_checksum(const ckpt_value *from, struct part_checksum *out)
{
    ckpt_str kind;
    bool ok = from && read_u32(value_item(from, 0), &out->row) &&
              value_size(value_item(from, 1), &out->from) && value_size(value_item(from, 2), &out->nbytes) &&
              read_u32(value_item(from, 3), &out->crc) && value_text(value_item(from, 4), &kind) &&
              value_size(value_item(from, 5), &out->total) && read_u32(value_item(from, 6), &out->recorded) &&
              value_text(value_item(from, 7), &out->name);
    out->is_crc32c = ok && str_is(kind, "crc32c");
    return ok && range_within(out->from, out->nbytes, out->total);
}

static bool read_lists(const ckpt_value *from, const struct part_job *job, arena *a, struct part_record *out)
{
    uint32_t nranges, nchecksums;
    const ckpt_value *ranges = get_list(from, "ranges", &nranges);
    const ckpt_value *checksums = get_list(from, "checksums", &nchecksums);
    out->ranges = arena_array(a, nranges, sizeof *out->ranges);
    out->checksums = arena_array(a, nchecksums, sizeof *out->checksums);
    bool ok = ranges && checksums && out->ranges && out->checksums;
    for (uint32_t i = 0; ok && i < nranges; i++)
        ok = read_range(value_item(ranges, i), job, &out->ranges[i]);
    for (uint32_t i = 0; ok && i < nchecksums; i++)
        ok = read_checksum(value_item(checksums, i), &out->checksums[i]);
    out->nranges = out->cap_ranges = nranges;
    out->nchecksums = out->cap_checksums = nchecksums;
    return ok;
}

static bool read_flag(const ckpt_value *value, bool *out)
{
    int64_t n;
    bool ok = value && value->type == CKPT_V_BOOL && value_integer(value, &n);
    *out = ok && n;
    return ok;
}

ckpt_status part_record_read(const char *path, const struct part_job *job, arena *a, struct part_record *out,
                             ckpt_error *err)
{
    ckpt_value *v;
    *out = (struct part_record){0};
    ckpt_status st = read_document(path, "ckpt.part.v1", a, &v, err);
    if (st == CKPT_OK &&
        !(read_digits(value_get(v, "plan_id"), out->id) && read_u32(value_get(v, "part"), &out->part) &&
          read_u32(value_get(v, "parts"), &out->parts) && read_flag(value_get(v, "done"), &out->done) &&
          value_size(value_get(v, "overflowed"), &out->overflowed) && read_lists(v, job, a, out)))
        st = fail_malformed("a key is missing, or a value is out of range", err);
    return name_file_if_failed(st, path, err);
}

ckpt_status part_failure_read(const char *path, arena *a, ckpt_str *message, ckpt_error *err)
{
    ckpt_value *v;
    ckpt_status st = read_document(path, "ckpt.part-failure.v1", a, &v, err);
    if (st == CKPT_OK && !value_text(value_get(v, "message"), message))
        st = fail_malformed("no message", err);
    return name_file_if_failed(st, path, err);
}
