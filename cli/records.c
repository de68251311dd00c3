#include "records.h"

#include <string.h>

#include "cmd.h"

struct records_options records;

const char *records_option(void) { return records.tsv ? "tsv" : records.csv ? "csv" : NULL; }

int records_check(const char *cmd)
{
    if (records.tsv && records.csv)
        return usage_error(cmd, "choose --tsv or --csv");
    if (ui.json && records_option())
        return usage_error(cmd, "choose --json or --%s", records_option());
    if (ui.json && records.header)
        return usage_error(cmd, "--json names each value, so it has no --header");
    print.for_programs = print.for_programs || records_option();
    return EXIT_OK;
}

/* quote_field - puts the field at START of TEXT in quotes, and doubles those in it, if CSV requires that. */
static void quote_field(struct text *text, size_t start)
{
    struct text quoted = {0};
    const char *field = text->ptr ? text->ptr + start : "";
    if (!strpbrk(field, ",\""))
        return;
    text_byte(&quoted, '"');
    for (const char *p = field; *p; p++) {
        if (*p == '"')
            text_byte(&quoted, '"');
        text_byte(&quoted, *p);
    }
    text_byte(&quoted, '"');
    text_cut(text, start);
    text_bytes(text, quoted.ptr, quoted.len);
    text_free(&quoted);
}

void record_field(struct record *record)
{
    if (records.csv)
        quote_field(&record->text, record->field_start);
    text_byte(&record->text, records.csv ? ',' : '\t');
    record->field_start = record->text.len;
}

void record_field_uint(struct record *record, uint64_t count)
{
    text_uint(&record->text, count);
    record_field(record);
}

void record_field_text(struct record *record, const char *text)
{
    text_add(&record->text, text);
    record_field(record);
}

void record_field_name(struct record *record, ckpt_str text)
{
    text_name(&record->text, text);
    record_field(record);
}

void record_put(struct record *record)
{
    text_cut(&record->text, record->text.len - 1); /* the separator after the last field */
    line_put(&record->text);
    text_clear(&record->text);
    record->field_start = 0;
}

void record_free(struct record *record) { text_free(&record->text); }

void records_header(const char *const *titles, size_t count)
{
    static bool is_printed;
    const char *file_names = ui.prefix;
    struct record r = {0};
    if (!records.header || is_printed)
        return;
    is_printed = true;
    if (file_names[0])
        record_field_name(&r, str_c("file"));
    for (size_t i = 0; i < count; i++)
        record_field_name(&r, str_c(titles[i]));
    ui.prefix = "";
    record_put(&r);
    ui.prefix = file_names;
    record_free(&r);
}
