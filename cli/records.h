/* records.h - output for scripts and spreadsheets: a line for each record. With --tsv, tabs separate its
 * fields, with --csv commas, as RFC 4180 describes. Names are escaped as elsewhere, so a field holds neither
 * a tab nor a newline. */
#pragma once

#include "out.h"

/* The values of the options below. */
struct records_options {
    bool tsv, csv, header;
};
extern struct records_options records;

/* clang-format off */
#define RECORDS_OPTIONS(columns) \
    {0, "tsv", NULL, OPT_FLAG, &records.tsv, "tab-separated: " columns}, \
    {0, "csv", NULL, OPT_FLAG, &records.csv, "the same, comma-separated"}, \
    {0, "header", NULL, OPT_FLAG, &records.header, "begin with a line that names the columns"}
/* clang-format on */

/* records_option - returns "tsv" or "csv" if that output was chosen, else NULL. */
const char *records_option(void);
/* records_check - prints an error if the options of CMD contradict each other. Returns an exit code. */
int records_check(const char *cmd);

/* A record: its fields are added one after the other to TEXT, each ended by record_field(). */
struct record {
    struct text text;
    size_t field_start; /* where the text of the next field begins */
};

/* record_field - ends the field whose text was added to record->text, and quotes it where necessary. */
void record_field(struct record *record);
/* record_field_uint - adds a field with the number COUNT; record_field_text - with TEXT as it is. */
void record_field_uint(struct record *record, uint64_t count);
void record_field_text(struct record *record, const char *text);
/* record_field_name - adds a field with TEXT, escaped as by text_name. */
void record_field_name(struct record *record, ckpt_str text);
/* record_put - prints RECORD after ui.prefix, and clears it for the next record. */
void record_put(struct record *record);
void record_free(struct record *record);
/* records_header - with --header, prints the COUNT TITLES once, before the first record of the run. The first
 * column is "file" if the records begin with the name of their file. */
void records_header(const char *const *titles, size_t count);
