#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "number.h"

/* index_renames - returns an array with an item for each row of report->b: the event of its rename, or
 * NULL. */
static const ckpt_diff_event **index_renames(const struct report *report)
{
    const ckpt_diff_event **rename_of_b = mem_new(ckpt_tensor_count(report->b), sizeof *rename_of_b);
    for (size_t i = 0; i < report->n; i++) {
        const ckpt_diff_event *e = &report->events[i];
        if (e->what == CKPT_DIFF_RENAMED && e->b < ckpt_tensor_count(report->b))
            rename_of_b[e->b] = e;
    }
    return rename_of_b;
}

static void add_value_difference(struct text *out, const ckpt_diff_event *event)
{
    if (event->within_tolerance)
        text_add(out, "same within tolerance");
    else if (!event->compared)
        text_add(out, "other contents");
    else
        text_addf(out, "%llu of %llu differ", (unsigned long long)event->differing,
                  (unsigned long long)event->elements);
    if (!event->compared)
        return;
    text_addf(out, ", max |Δ| %.2g, max rel %.2g", event->max_abs, event->max_rel);
    if (!isnan(event->rel_l2))
        text_addf(out, ", rel L2 %.2g", event->rel_l2);
    if (!isnan(event->rel_l2) && !isnan(event->cosine))
        text_addf(out, ", cos %.6f", event->cosine);
}

/* shows_dtype_or_shape - returns true if the dtype or the shape of TENSOR, in F, is known. A list of names
 * has no dtypes, and often no shapes. */
static bool shows_dtype_or_shape(const ckpt_file *f, const ckpt_tensor *tensor, bool is_shape)
{
    return strcmp(ckpt_file_format(f), "names") != 0 || (is_shape && tensor->has_shape);
}

/* add_dtype_or_shape - adds the dtype or the shape of EVENT's tensor. If it DIFFERS, adds that in report->a,
 * an arrow and that in report->b. */
static void add_dtype_or_shape(struct text *out, const struct report *report, const ckpt_diff_event *event,
                               bool differs, bool is_shape)
{
    ckpt_tensor a = CKPT_INIT(ckpt_tensor), b = CKPT_INIT(ckpt_tensor);
    void (*add)(struct text *, const ckpt_tensor *) = is_shape ? text_shape : text_dtype;
    bool in_a = ckpt_tensor_at(report->a, event->a, &a) && shows_dtype_or_shape(report->a, &a, is_shape);
    bool in_b = ckpt_tensor_at(report->b, event->b, &b) && shows_dtype_or_shape(report->b, &b, is_shape);
    if (in_a || in_b)
        add(out, in_a ? &a : &b);
    if (differs && in_a && in_b) {
        text_add(out, " → ");
        add(out, &b);
    }
}

/* add_key_types - adds which types the key of EVENT's tensors has that differs between the files. */
static void add_key_types(struct text *out, const struct report *report, const ckpt_diff_event *event)
{
    ckpt_tensor a = CKPT_INIT(ckpt_tensor), b = CKPT_INIT(ckpt_tensor);
    if (!ckpt_tensor_at(report->a, event->a, &a) || !ckpt_tensor_at(report->b, event->b, &b))
        return;
    const ckpt_path_elem *in_b, *in_a = find_key_of_other_type(a.path, a.npath, b.path, b.npath, &in_b);
    if (in_a)
        text_addf(out, "a key is %s → %s", key_type_name(in_a), key_type_name(in_b));
}

/* add_quantizer_difference - adds the notes of EVENT's tensors, which have their scales and zero points.
 * Returns false if the tensors are not quantized or their notes are equal. */
static bool add_quantizer_difference(struct text *out, const struct report *report,
                                     const ckpt_diff_event *event)
{
    ckpt_tensor a = CKPT_INIT(ckpt_tensor), b = CKPT_INIT(ckpt_tensor);
    if (!ckpt_tensor_at(report->a, event->a, &a) || !ckpt_tensor_at(report->b, event->b, &b) ||
        a.kind != CKPT_QUANTIZED || str_is_equal(a.note, b.note))
        return false;
    text_addf(out, "%s → %s", escape_name(a.note), escape_name(b.note));
    return true;
}

/* add_unread_reason - adds why the values of EVENT's tensors were not compared. */
static void add_unread_reason(struct text *out, const struct report *report, const ckpt_diff_event *event)
{
    ckpt_tensor side[2] = {CKPT_INIT(ckpt_tensor), CKPT_INIT(ckpt_tensor)};
    for (int i = 0; i < 2; i++)
        if (ckpt_tensor_at(i ? report->b : report->a, i ? event->b : event->a, &side[i]) &&
            ckpt_tensor_is_unread(&side[i])) {
            text_unread_reason(out, &side[i]);
            return;
        }
    text_add(out, "it contains tensors that are not listed"); /* an array of objects, or a subclass */
}

/* add_changes - adds what differs in EVENT's tensors besides dtype and shape. */
static void add_changes(struct text *out, const struct report *report, const ckpt_diff_event *event)
{
    if (event->key_differs)
        add_key_types(out, report, event);
    if (!event->within_tolerance && !event->values_differ)
        return;
    text_add(out, event->key_differs ? "; " : "");
    if (event->differing != 0 || !add_quantizer_difference(out, report, event))
        add_value_difference(out, event);
}

/* add_diff_remark - adds what differs besides name, dtype and shape. */
static void add_diff_remark(struct text *out, const struct report *report, const ckpt_diff_event *event,
                            const ckpt_diff_event *const *rename_of_b)
{
    if (event->what == CKPT_DIFF_ONLY_B && event->b != CKPT_NO_TENSOR && rename_of_b[event->b]) {
        text_addf(out, "same bytes as %s: renamed?", escape_name(rename_of_b[event->b]->name));
    } else if (event->what == CKPT_DIFF_NOT_COMPARED) {
        text_add(out, "not compared: ");
        add_unread_reason(out, report, event);
    } else {
        add_changes(out, report, event);
    }
}

static void add_event_count(struct text *out, const char *label, uint64_t count, const char *side)
{
    if (count)
        text_addf(out, ", %llu %s%s", (unsigned long long)count, label, side ? escape_name(str_c(side)) : "");
}

static const char *totals_text(const struct report *report, struct text *out)
{
    const ckpt_diff_totals *t = &report->totals;
    const ckpt_diff_value_totals *v = &report->value_totals;
    text_addf(out, "%llu same", (unsigned long long)t->same);
    add_event_count(out, "changed", t->changed, NULL);
    add_event_count(out, "only in ", t->only_a, report->name_a);
    add_event_count(out, "only in ", t->only_b, report->name_b);
    add_event_count(out, "not compared", t->not_compared, NULL);
    if (!v->compared)
        return out->ptr;
    text_addf(out, "; values: %llu same", (unsigned long long)v->same);
    add_event_count(out, "changed", v->changed, NULL);
    add_event_count(out, "only in ", v->only_a, report->name_a);
    add_event_count(out, "only in ", v->only_b, report->name_b);
    add_event_count(out, "not compared", v->not_compared, NULL);
    return out->ptr;
}

bool report_is_equal(const struct report *report)
{
    const ckpt_diff_totals *t = &report->totals;
    const ckpt_diff_value_totals *v = &report->value_totals;
    return !t->changed && !t->only_a && !t->only_b && !v->changed && !v->only_a && !v->only_b &&
           report_is_complete(report);
}

bool report_is_complete(const struct report *report)
{
    return !report->totals.not_compared && !report->value_totals.not_compared;
}

const ckpt_diff_event *report_next_event(const struct report *report, ckpt_diff_what what, size_t *index)
{
    while (*index < report->n)
        if (report->events[(*index)++].what == what)
            return &report->events[*index - 1];
    return NULL;
}

/* first_not_compared - returns the name of the first tensor or value that was not compared. */
static ckpt_str first_not_compared(const struct report *report)
{
    size_t i = 0, k = 0;
    const ckpt_diff_event *e = report_next_event(report, CKPT_DIFF_NOT_COMPARED, &i);
    while (!e && k + 1 < report->nvalues && report->values[k].what != CKPT_DIFF_NOT_COMPARED)
        k++;
    return e ? e->name : report->values[k].name;
}

void report_incomplete(const struct report *report)
{
    struct text hint = {0};
    uint64_t tensors = report->totals.not_compared, values = report->value_totals.not_compared;
    ckpt_str name = first_not_compared(report);
    text_leave_out(&hint, name);
    (void)report_failure(CKPT_EUNSUPPORTED, NULL, hint.ptr, "%s%s%s cannot be compared, such as \"%s\"",
                         tensors ? show_noun(tensors, "tensor", "tensors") : "",
                         tensors && values ? " and " : "", values ? show_noun(values, "value", "values") : "",
                         escape_name(name));
    text_free(&hint);
}

/* -------------------------------------------------------------------- order */

static double change_size(const ckpt_diff_event *event, enum diff_order order)
{
    double x = order == BY_REL_L2 ? event->rel_l2 : event->max_abs;
    return !event->compared || isnan(x) ? HUGE_VAL : x; /* a change that cannot be measured counts as large */
}

struct sized_event {
    ckpt_diff_event event;
    double size;  /* of the change; below 0: the event is not a change */
    size_t index; /* of the event before sorting */
};

static int compare_change_sizes(const void *left, const void *right)
{
    const struct sized_event *a = left, *b = right;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

void report_sort(struct report *report, enum diff_order order)
{
    if (order == BY_NAME)
        return;
    struct sized_event *sized = mem_new(report->n, sizeof *sized);
    for (size_t i = 0; i < report->n; i++) {
        bool changed = report->events[i].what == CKPT_DIFF_CHANGED;
        sized[i] = (struct sized_event){report->events[i],
                                        changed ? change_size(&report->events[i], order) : -1, i};
    }
    qsort(sized, report->n, sizeof *sized, compare_change_sizes);
    for (size_t i = 0; i < report->n; i++)
        report->events[i] = sized[i].event;
    free(sized);
}

void report_limit_changed(struct report *report, uint64_t max_changed)
{
    size_t kept = 0;
    uint64_t nchanged = 0;
    for (size_t i = 0; i < report->n; i++) {
        if (report->events[i].what != CKPT_DIFF_CHANGED || nchanged++ < max_changed)
            report->events[kept++] = report->events[i];
        else
            report->nleft_out++;
    }
    report->n = kept;
}

/* --------------------------------------------------------------------- text */

static const char *event_sign(const ckpt_diff_event *event)
{
    return event->what == CKPT_DIFF_ONLY_A         ? "- "
           : event->what == CKPT_DIFF_ONLY_B       ? "+ "
           : event->what == CKPT_DIFF_NOT_COMPARED ? "? "
           : event->within_tolerance               ? "≈ "
                                                   : "~ ";
}

enum style diff_style(ckpt_diff_what what)
{
    return what == CKPT_DIFF_ONLY_A ? RED : what == CKPT_DIFF_ONLY_B ? GREEN : YELLOW;
}

void report_text(const struct report *report)
{
    const ckpt_diff_event **rename_of_b = index_renames(report);
    struct table table = {.columns = 4};
    struct text total = {0};
    table_header(&table, NULL);
    for (size_t i = 0; i < report->n; i++) {
        const ckpt_diff_event *e = &report->events[i];
        if (e->what == CKPT_DIFF_RENAMED)
            continue;
        table_row(&table, e->within_tolerance ? DIM : diff_style(e->what));
        table_cellf(&table, "%s%s", event_sign(e), escape_name(e->name));
        add_dtype_or_shape(&table.text, report, e, e->dtype_differs, false);
        table_cell(&table);
        add_dtype_or_shape(&table.text, report, e, e->shape_differs, true);
        table_cell(&table);
        add_diff_remark(&table.text, report, e, rename_of_b);
        table_cell(&table);
    }
    table_print(&table, stdout, false);
    if (report->nleft_out)
        print_text(stdout, "… and %zu more that changed\n", report->nleft_out);
    values_text(report);
    put_line(totals_text(report, &total));
    text_free(&total);
    table_free(&table);
    free(rename_of_b);
}

/* ---------------------------------------------------------------- Markdown */

/* A '|' would end the cell even in code, and is escaped; a '`' would end the code, and becomes "'". */
void text_markdown_code(struct text *out, const struct text *code)
{
    text_add(out, "`");
    for (size_t i = 0; i < code->len; i++) {
        if (code->ptr[i] == '|')
            text_add(out, "\\|");
        else
            text_bytes(out, code->ptr[i] == '`' ? "'" : code->ptr + i, 1);
    }
    text_add(out, "`");
}

void text_markdown_name(struct text *out, ckpt_str name)
{
    struct text t = {0};
    text_name(&t, name);
    text_markdown_code(out, &t);
    text_free(&t);
}

static void markdown_change(struct text *out, const struct report *report, const ckpt_diff_event *event,
                            const ckpt_diff_event *const *rename_of_b)
{
    if (event->what == CKPT_DIFF_ONLY_A || event->what == CKPT_DIFF_ONLY_B) {
        text_add(out, "only in ");
        text_markdown_name(out, str_c(event->what == CKPT_DIFF_ONLY_A ? report->name_a : report->name_b));
        if (event->what == CKPT_DIFF_ONLY_B && event->b != CKPT_NO_TENSOR && rename_of_b[event->b]) {
            text_add(out, ", same bytes as ");
            text_markdown_name(out, rename_of_b[event->b]->name);
        }
    } else if (event->what == CKPT_DIFF_NOT_COMPARED) {
        text_add(out, "not compared: ");
        add_unread_reason(out, report, event);
    } else {
        struct text t = {0};
        add_changes(&t, report, event);
        for (size_t i = 0; i < t.len; i++) {
            if (t.ptr[i] == '|')
                text_add(out, "\\");
            text_bytes(out, t.ptr + i, 1);
        }
        text_free(&t);
    }
}

void report_markdown(const struct report *report)
{
    const ckpt_diff_event **rename_of_b = index_renames(report);
    struct text out = {0}, total = {0};
    size_t rows = 0;
    for (size_t i = 0; i < report->n; i++) {
        const ckpt_diff_event *e = &report->events[i];
        if (e->what == CKPT_DIFF_RENAMED)
            continue;
        if (!rows++)
            put_line("| | tensor | dtype | shape | change |\n|---|---|---|---|---|");
        text_clear(&out);
        text_addf(&out, "| %s| ", e->what == CKPT_DIFF_ONLY_A ? "− " : event_sign(e));
        text_markdown_name(&out, e->name);
        text_add(&out, " | ");
        add_dtype_or_shape(&out, report, e, e->dtype_differs, false);
        text_add(&out, " | ");
        add_dtype_or_shape(&out, report, e, e->shape_differs, true);
        text_add(&out, " | ");
        markdown_change(&out, report, e, rename_of_b);
        print_text(stdout, "%s |\n", out.ptr);
    }
    if (report->nleft_out)
        print_text(stdout, "\n… and %zu more that changed\n", report->nleft_out);
    if (rows && report->nvalues)
        put_text(stdout, "\n");
    values_markdown(report);
    print_text(stdout, "%s**%s**\n", rows || report->nvalues ? "\n" : "", totals_text(report, &total));
    text_free(&out);
    text_free(&total);
    free(rename_of_b);
}

/* ----------------------------------------------------------------- records */

/* change_name - returns what the lists of --json call the events of kind WHAT. */
static const char *change_name(ckpt_diff_what what)
{
    static const char *const names[] = {[CKPT_DIFF_ONLY_A] = "only_a",
                                        [CKPT_DIFF_ONLY_B] = "only_b",
                                        [CKPT_DIFF_CHANGED] = "changed",
                                        [CKPT_DIFF_SAME] = "within_tolerance",
                                        [CKPT_DIFF_NOT_COMPARED] = "not_compared"};
    return names[what];
}

static void add_side_fields(struct record *line, const struct report *report, const ckpt_diff_event *event,
                            bool is_shape)
{
    for (int i = 0; i < 2; i++) {
        const ckpt_file *f = i ? report->b : report->a;
        ckpt_tensor t = CKPT_INIT(ckpt_tensor);
        bool is_known = ckpt_tensor_at(f, i ? event->b : event->a, &t) &&
                        shows_dtype_or_shape(f, &t, is_shape);
        if (is_known && is_shape && t.has_shape)
            text_dims(&line->text, t.shape, t.ndim, ",");
        else if (is_known && !is_shape)
            text_dtype(&line->text, &t);
        record_field(line);
    }
}

static void add_number_fields(struct record *line, const ckpt_diff_event *event)
{
    const double numbers[] = {event->max_abs, event->max_rel, event->mean_abs, event->rel_l2, event->cosine};
    char text[NUMBER_TEXT_SIZE];
    record_field_uint(line, event->differing);
    record_field_uint(line, event->elements);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!isnan(numbers[i]) || i < 3) /* NaN in the last two: there is no such number */
            text_add(&line->text, real_text(numbers[i], false, text));
        record_field(line);
    }
}

static void add_event_fields(struct record *line, const struct report *report, const ckpt_diff_event *event,
                             const ckpt_diff_event *const *rename_of_b)
{
    bool has_numbers = event->compared && (event->values_differ || event->within_tolerance);
    record_field_text(line, change_name((ckpt_diff_what)event->what));
    record_field_name(line, event->name);
    add_side_fields(line, report, event, false);
    add_side_fields(line, report, event, true);
    if (has_numbers)
        add_number_fields(line, event);
    for (int i = 0; !has_numbers && i < 7; i++)
        record_field(line);
    bool is_renamed = event->what == CKPT_DIFF_ONLY_B && event->b != CKPT_NO_TENSOR && rename_of_b[event->b];
    record_field_name(line, is_renamed ? rename_of_b[event->b]->name : (ckpt_str){"", 0});
    if (event->what == CKPT_DIFF_NOT_COMPARED)
        add_unread_reason(&line->text, report, event);
    else if (event->key_differs)
        add_key_types(&line->text, report, event);
    else if (event->values_differ && event->differing == 0)
        (void)add_quantizer_difference(&line->text, report, event);
    record_field(line);
}

void report_records(const struct report *report)
{
    static const char *const titles[] = {"change",   "name",      "dtype_a",  "dtype_b",      "shape_a",
                                         "shape_b",  "differing", "elements", "max_abs",      "max_rel",
                                         "mean_abs", "rel_l2",    "cosine",   "renamed_from", "remark"};
    const ckpt_diff_event **rename_of_b = index_renames(report);
    struct record line = {0};
    records_header(titles, sizeof titles / sizeof *titles);
    for (size_t i = 0; i < report->n; i++) {
        if (report->events[i].what == CKPT_DIFF_RENAMED)
            continue;
        add_event_fields(&line, report, &report->events[i], rename_of_b);
        record_put(&line);
    }
    for (size_t i = 0; i < report->nvalues; i++) {
        record_field_text(&line, change_name((ckpt_diff_what)report->values[i].what));
        record_field_name(&line, report->values[i].name);
        value_fields(&line, &report->values[i]);
        for (size_t field = 6; field < sizeof titles / sizeof *titles; field++)
            record_field(&line);
        record_put(&line);
    }
    record_free(&line);
    free(rename_of_b);
}

/* -------------------------------------------------------------------- JSON */

static void add_change_json(json *list, const struct report *report, const ckpt_diff_event *event)
{
    ckpt_tensor side[2] = {CKPT_INIT(ckpt_tensor), CKPT_INIT(ckpt_tensor)};
    bool exists[2] = {ckpt_tensor_at(report->a, event->a, &side[0]),
                      ckpt_tensor_at(report->b, event->b, &side[1])};
    json *item = json_add_object(list, NULL), *both;
    json_str(item, "name", event->name);
    both = json_add_array(item, "dtype");
    for (int i = 0; i < 2; i++)
        json_text(both, NULL, exists[i] ? ckpt_tensor_dtype_name(&side[i]) : "");
    both = json_add_array(item, "shape");
    for (int i = 0; i < 2; i++) {
        if (side[i].has_shape)
            json_u64s(both, NULL, side[i].shape, side[i].ndim);
        else
            json_null(both, NULL);
    }
    if (event->key_differs) {
        both = json_add_array(item, "paths");
        for (int i = 0; i < 2; i++)
            json_path(both, NULL, side[i].path, side[i].npath);
    }
    if (!event->compared || (!event->values_differ && !event->within_tolerance)) {
        json_null(item, "values");
        return;
    }
    json *v = json_add_object(item, "values");
    json_u64(v, "differing", event->differing);
    json_u64(v, "elements", event->elements);
    json_real(v, "max_abs", event->max_abs);
    json_real(v, "max_rel", event->max_rel);
    json_real(v, "mean_abs", event->mean_abs);
    json_real_or_null(v, "rel_l2", event->rel_l2);
    json_real_or_null(v, "cosine", event->cosine);
}

static void not_compared_json(json *list, const struct report *report, const ckpt_diff_event *event)
{
    struct text why = {0};
    json *item = json_add_object(list, NULL);
    json_str(item, "name", event->name);
    add_unread_reason(&why, report, event);
    json_text(item, "why", why.ptr);
    text_free(&why);
}

/* events_json - adds the list KEY of the events of kind WHAT. Its items are dtypes, shapes and differences if
 * both files have the tensor, old and new name if it was renamed, else only its name. */
static void events_json(json *object, const char *key, const struct report *report, ckpt_diff_what what)
{
    json *list = json_add_array(object, key);
    const ckpt_diff_event *e;
    for (size_t i = 0; (e = report_next_event(report, what, &i));) {
        if (what == CKPT_DIFF_CHANGED || what == CKPT_DIFF_SAME)
            add_change_json(list, report, e);
        else if (what == CKPT_DIFF_NOT_COMPARED)
            not_compared_json(list, report, e);
        else if (what == CKPT_DIFF_RENAMED)
            json_rename(list, e->name, e->other);
        else
            json_str(list, NULL, e->name);
    }
}

static void prefix_json(json *object, const struct report *report)
{
    const struct prefix prefix = report_find_prefix(report);
    if (!prefix.text.len) {
        json_null(object, "renamed_prefix");
        return;
    }
    json *item = json_add_object(object, "renamed_prefix");
    json_text(item, "side", prefix.in_b ? "b" : "a");
    json_str(item, "prefix", prefix.text);
    json_u64(item, "pairs", prefix.pairs);
}

void report_json(const struct report *report)
{
    json *j = json_schema("ckpt.diff.v1");
    json_text(j, "a", report->name_a);
    json_text(j, "b", report->name_b);
    json_bool(j, "equal", report_is_equal(report));
    events_json(j, "only_a", report, CKPT_DIFF_ONLY_A);
    events_json(j, "only_b", report, CKPT_DIFF_ONLY_B);
    events_json(j, "changed", report, CKPT_DIFF_CHANGED);
    events_json(j, "within_tolerance", report,
                CKPT_DIFF_SAME); /* other rows that are the same have no event */
    events_json(j, "not_compared", report, CKPT_DIFF_NOT_COMPARED);
    events_json(j, "renamed", report, CKPT_DIFF_RENAMED);
    prefix_json(j, report);
    json_u64(j, "same", report->totals.same);
    json_u64(j, "left_out", report->nleft_out);
    json_print_head(j, "values", stdout);
    values_json(report, stdout);
    put_line("}");
}
