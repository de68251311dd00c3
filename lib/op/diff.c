/* diff.c - `ckpt diff` of tensors: pairs the rows of two files by name, and compares them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/sized.h"
#include "core/number.h"
#include "op/compare.h"
#include "op/diff_names.h"
#include "op/hash_xxh3.h"
#include "op/share.h"
#include "op/value_equal.h"

/* One line of the result: a row that only one file has, or two rows with the same name. */
struct row_pair {
    ckpt_str name;
    uint32_t a, b;       /* rows, or CKPT_NO_TENSOR */
    uint32_t renamed_to; /* of a row only in A: the pair of the row only in B with the same bytes */
    uint32_t item;       /* index in items; CKPT_NO_TENSOR: the values are not compared */
    bool form_differs;   /* of arrays of values: the values differ; of wrappers: class or attributes */
    bool is_unread;      /* the values of one side or both cannot be read */
};

/* A row whose name is only in one file; the other may have it under a different name. */
struct unmatched {
    const struct table *table;
    uint32_t row, pair;
    bool from_b;
    bool hashed; /* dtype, kind and shape are those of a row in the other file */
    uint8_t digest[CKPT_DIGEST_MAX];
};

struct diff {
    ckpt_file *a, *b;
    const ckpt_diff_options *o;
    ckpt_work work;
    int (*event)(void *, const ckpt_diff_event *);
    void *user;
    struct row_pair *pairs;
    size_t npairs;
    size_t nreported; /* pairs passed to event */
    struct parallel_item *items;
    struct comparison *compared; /* by item */
    size_t nitems;
    struct unmatched *unmatched; /* sorted by dtype, kind and shape, then by digest */
    size_t nunmatched;
    ckpt_diff_totals *totals;
    struct share share;
    struct share_list shared_digests, shared_comparisons; /* by number in UNMATCHED and ITEMS */
};

static ckpt_tensor row_a(const struct diff *diff, const struct row_pair *pair)
{
    return table_tensor(&diff->a->table, pair->a);
}

static ckpt_tensor row_b(const struct diff *diff, const struct row_pair *pair)
{
    return table_tensor(&diff->b->table, pair->b);
}

/* ---- pairing by name */

static ckpt_status pair_rows(struct diff *diff, const struct diff_names *left, const struct diff_names *right,
                             ckpt_error *err)
{
    struct diff_join join = {.a = left, .b = right};
    const struct indexed_name *in_a, *in_b;
    diff->pairs = calloc(left->n + right->n + 1, sizeof *diff->pairs);
    CKPT_TRY_ALLOC(diff->pairs, err);
    while (diff_next_pair(&join, &in_a, &in_b))
        diff->pairs[diff->npairs++] = (struct row_pair){.name = in_a ? in_a->name : in_b->name,
                                                        .a = in_a ? in_a->index : CKPT_NO_TENSOR,
                                                        .b = in_b ? in_b->index : CKPT_NO_TENSOR,
                                                        .renamed_to = CKPT_NO_TENSOR,
                                                        .item = CKPT_NO_TENSOR};
    return CKPT_OK;
}

/* ---- renamed rows */

static int compare_dtype_kind_shape(const struct unmatched *left, const struct unmatched *right)
{
    const ckpt_tensor a = table_tensor(left->table, left->row), b = table_tensor(right->table, right->row);
    if (a.dtype != b.dtype)
        return a.dtype < b.dtype ? -1 : 1;
    if (!tensor_same_dtype(&a, &b))
        return strcmp(ckpt_tensor_dtype_name(&a), ckpt_tensor_dtype_name(&b));
    if (a.kind != b.kind)
        return a.kind < b.kind ? -1 : 1;
    if (a.ndim != b.ndim)
        return a.ndim < b.ndim ? -1 : 1;
    for (uint32_t i = 0; i < a.ndim; i++)
        if (a.shape[i] != b.shape[i])
            return a.shape[i] < b.shape[i] ? -1 : 1;
    return 0;
}

static int compare_unmatched_rows(const void *left, const void *right)
{
    const struct unmatched *a = left, *b = right;
    int c = compare_dtype_kind_shape(a, b);
    if (!c)
        c = memcmp(a->digest, b->digest, sizeof a->digest);
    if (!c)
        c = a->from_b - b->from_b;
    return c ? c : (a->pair > b->pair) - (a->pair < b->pair);
}

/* match_same_bytes - matches LEFT[0..NA) with RIGHT[0..NB) in the order of their names. All these rows have
 * the same bytes. If NA and NB differ, rows match only if the last components of their names are equal. */
static void match_same_bytes(struct diff *diff, const struct unmatched *left, size_t na,
                             const struct unmatched *right, size_t nb)
{
    size_t j = 0;
    for (size_t i = 0; i < na && j < nb; i++) {
        struct row_pair *from = &diff->pairs[left[i].pair];
        if (na == nb ||
            str_eq(str_after_last(from->name, '.'), str_after_last(diff->pairs[right[j].pair].name, '.')))
            from->renamed_to = right[j++].pair;
    }
}

/* mark_candidates - marks the rows whose dtype, kind and shape occur in both files. */
static void mark_candidates(struct unmatched *list, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        bool in_both = false;
        for (end = i + 1; end < count && compare_dtype_kind_shape(&list[i], &list[end]) == 0; end++)
            in_both |= list[end].from_b != list[i].from_b;
        for (size_t k = i; in_both && k < end; k++)
            list[k].hashed = true;
    }
}

/* list_unmatched - lists the rows whose names are only in one file. */
static ckpt_status list_unmatched(struct diff *diff, ckpt_error *err)
{
    struct unmatched *list = diff->unmatched = calloc(diff->npairs + 1, sizeof *list);
    CKPT_TRY_ALLOC(list, err);
    for (size_t i = 0; i < diff->npairs && !diff->o->keys_only; i++) {
        const struct row_pair *p = &diff->pairs[i];
        bool from_b = p->a == CKPT_NO_TENSOR;
        const struct table *table = from_b ? &diff->b->table : &diff->a->table;
        uint32_t row = from_b ? p->b : p->a;
        if ((from_b || p->b == CKPT_NO_TENSOR) && table_has_data(table, row) &&
            table_tensor(table, row).nbytes)
            list[diff->nunmatched++] = (struct unmatched){
                .table = table, .row = row, .pair = (uint32_t)i, .from_b = from_b};
    }
    qsort(list, diff->nunmatched, sizeof *list, compare_unmatched_rows);
    mark_candidates(list, diff->nunmatched);
    return CKPT_OK;
}

/* hash_candidates - hashes the rows that may have been renamed, or those of them that are of a part. */
static ckpt_status hash_candidates(struct diff *diff, ckpt_error *err)
{
    for (size_t i = 0; i < diff->nunmatched; i++) {
        struct unmatched *u = &diff->unmatched[i];
        if (u->hashed && share_has(&diff->share, &diff->shared_digests, i))
            CKPT_TRY(ckpt_digest_tensor(u->from_b ? diff->b : diff->a, u->row, CKPT_XXH3, u->digest, err));
    }
    return CKPT_OK;
}

/* match_candidates - finds the pairs of rows that have the same bytes. */
static void match_candidates(struct diff *diff)
{
    struct unmatched *list = diff->unmatched;
    size_t count = diff->nunmatched;
    qsort(list, count, sizeof *list, compare_unmatched_rows);
    for (size_t i = 0, end; i < count; i = end) {
        size_t split = i;
        for (end = i; end < count && compare_dtype_kind_shape(&list[i], &list[end]) == 0 &&
                      memcmp(list[i].digest, list[end].digest, sizeof list->digest) == 0;
             end++)
            split += !list[end].from_b;
        if (list[i].hashed)
            match_same_bytes(diff, list + i, split - i, list + split, end - split);
    }
}

/* ---- one pair */

static bool have_same_shape(const ckpt_tensor *left, const ckpt_tensor *right)
{
    return left->has_shape == right->has_shape && left->ndim == right->ndim &&
           (left->ndim == 0 || memcmp(left->shape, right->shape, left->ndim * sizeof *left->shape) == 0);
}

/* have_same_form - returns true if kind, presence of bytes and the notes of quantized rows agree. */
static bool have_same_form(const ckpt_tensor *left, const ckpt_tensor *right)
{
    if (left->kind != right->kind || left->has_data != right->has_data)
        return false;
    return left->kind != CKPT_QUANTIZED || str_eq(left->note, right->note);
}

static ckpt_status compare_pair(struct diff *diff, size_t index, struct parallel_chunk *chunk,
                                struct parallel_context *run, struct comparison *out, ckpt_error *err)
{
    ckpt_status st = compare_rows(&diff->items[index], chunk, diff->o, run, out, err);
    return prefix_where_if_failed(st, diff->pairs[diff->items[index].tag].name, err);
}

/* compare_item - compares the values of one pair, on any thread. */
static ckpt_status compare_item(void *user, size_t index, struct parallel_context *run, ckpt_error *err)
{
    struct diff *d = user;
    return compare_pair(d, index, NULL, run, &d->compared[index], err);
}

static ckpt_status compare_pair_chunk(void *user, size_t index, struct parallel_chunk *chunk,
                                      struct parallel_context *run, ckpt_error *err)
{
    chunk->out = malloc(sizeof(struct comparison));
    return chunk->out ? compare_pair(user, index, chunk, run, chunk->out, err) : fail_memory(err);
}

static ckpt_status merge_comparisons(void *user, size_t index, const struct parallel_chunk *chunks,
                                     size_t count, ckpt_error *err)
{
    struct diff *d = user;
    ckpt_status st = parallel_check_crc(&d->items[index], chunks, count, err);
    d->compared[index] = (struct comparison){.identical = true};
    for (size_t k = 0; st == CKPT_OK && k < count; k++)
        comparison_merge(&d->compared[index], chunks[k].out);
    return prefix_where_if_failed(st, d->pairs[d->items[index].tag].name, err);
}

/* path_of_row - returns the path of row INDEX of F. */
static struct diff_path path_of_row(const ckpt_file *f, uint32_t index)
{
    const struct table *t = &f->table;
    return (struct diff_path){.file = f,
                              .path = table_path_of(t, index),
                              .n = table_npath_of(t, index),
                              .steps = table_steps_of(t, index)};
}

static bool have_same_key_types(const struct diff *diff, const struct row_pair *pair)
{
    const struct diff_path a = path_of_row(diff->a, pair->a), b = path_of_row(diff->b, pair->b);
    return diff_have_same_key_types(&a, &b);
}

/* is_dtype_changed - returns true if the dtypes of the pair differ, and that counts as a difference. */
static bool is_dtype_changed(const struct diff *diff, const ckpt_diff_event *event)
{
    return event->dtype_differs && !diff->o->ignore_dtype;
}

static void fill_values(struct diff *diff, const struct row_pair *pair, ckpt_diff_event *event)
{
    const struct comparison *c = &diff->compared[pair->item];
    const ckpt_tensor a = row_a(diff, pair);
    if (!numbers_per_element((ckpt_dtype)a.dtype)) { /* no numbers: only their bytes were compared */
        event->values_differ = !c->identical;
        return;
    }
    event->compared = true;
    event->elements = a.elements;
    event->differing = c->differing;
    event->max_abs = c->max_abs;
    event->max_rel = c->max_rel;
    event->mean_abs = event->elements ? c->sum / (double)event->elements : 0;
    if (diff->o->norms) {
        event->rel_l2 = isfinite(c->max_abs) ? norms_distance(&c->norms) : c->max_abs;
        event->cosine = norms_cosine(&c->norms);
    }
    event->values_differ |= c->differing != 0;
    bool only_dtypes_differ = event->dtype_differs && c->max_abs == 0;
    bool contents_differ = !c->identical && !only_dtypes_differ;
    event->within_tolerance = contents_differ && !event->values_differ && !is_dtype_changed(diff, event);
}

static void fill_event(struct diff *diff, const struct row_pair *pair, ckpt_diff_event *event)
{
    const ckpt_tensor a = row_a(diff, pair), b = row_b(diff, pair);
    bool names_only = diff->a->name_list.is_one || diff->b->name_list.is_one;
    event->dtype_differs = !names_only && !tensor_same_dtype(&a, &b);
    event->shape_differs = !(names_only && !(a.has_shape && b.has_shape)) && !have_same_shape(&a, &b);
    event->key_differs = !names_only && !have_same_key_types(diff, pair);
    if (!diff->o->keys_only) {
        bool quantized = a.kind == CKPT_QUANTIZED || b.kind == CKPT_QUANTIZED;
        bool bytes_suffice = a.has_data && b.has_data && !quantized;
        event->values_differ = !pair->is_unread && !bytes_suffice &&
                               (!have_same_form(&a, &b) || pair->form_differs);
        if (pair->item != CKPT_NO_TENSOR)
            fill_values(diff, pair, event);
        else if (!event->shape_differs && a.has_data && b.has_data)
            event->values_differ = true;
    }
    bool changed = is_dtype_changed(diff, event) || event->shape_differs || event->key_differs ||
                   event->values_differ;
    event->what = changed ? CKPT_DIFF_CHANGED : pair->is_unread ? CKPT_DIFF_NOT_COMPARED : CKPT_DIFF_SAME;
    (*(changed           ? &diff->totals->changed
       : pair->is_unread ? &diff->totals->not_compared
                         : &diff->totals->same))++;
}

static bool send_event(const struct diff *diff, const ckpt_diff_event *event)
{
    return !diff->event || diff->event(diff->user, event) == 0;
}

/* report_pair - passes PAIR to the callback. Returns false if the callback requested to stop. */
static bool report_pair(struct diff *diff, const struct row_pair *pair)
{
    ckpt_diff_event e = {.name = pair->name,
                         .other = pair->name,
                         .a = pair->a,
                         .b = pair->b,
                         .rel_l2 = (double)NAN,
                         .cosine = (double)NAN};
    if (pair->a != CKPT_NO_TENSOR && pair->b != CKPT_NO_TENSOR) {
        fill_event(diff, pair, &e);
        return send_event(diff, &e);
    }
    e.what = pair->b == CKPT_NO_TENSOR ? CKPT_DIFF_ONLY_A : CKPT_DIFF_ONLY_B;
    (*(e.what == CKPT_DIFF_ONLY_A ? &diff->totals->only_a : &diff->totals->only_b))++;
    if (!send_event(diff, &e))
        return false;
    if (pair->renamed_to == CKPT_NO_TENSOR)
        return true;
    e.what = CKPT_DIFF_RENAMED;
    e.b = diff->pairs[pair->renamed_to].b;
    e.other = diff->pairs[pair->renamed_to].name;
    diff->totals->renamed++;
    return send_event(diff, &e);
}

/* report_pairs - passes the pairs before END to the callback, once each. False: the callback stopped it. */
static bool report_pairs(struct diff *diff, size_t end)
{
    while (diff->nreported < end)
        if (!report_pair(diff, &diff->pairs[diff->nreported++]))
            return false;
    return true;
}

static int report_item(void *user, size_t index)
{
    struct diff *d = user;
    return !report_pairs(d, (size_t)d->items[index].tag + 1);
}

static bool has_aliases(const ckpt_file *f)
{
    for (size_t i = 0; i < f->table.nrows; i++)
        if (table_alias_of(&f->table, i) != CKPT_NO_TENSOR)
            return true;
    return false;
}

/* make_tie_key - returns a number that is equal for pairs whose rows share their bytes in both files. */
static uint64_t make_tie_key(const struct diff *diff, const struct row_pair *pair)
{
    uint32_t a = row_a(diff, pair).alias_of, b = row_b(diff, pair).alias_of;
    return (uint64_t)(a == CKPT_NO_TENSOR ? pair->a : a) << 32 | (b == CKPT_NO_TENSOR ? pair->b : b);
}

static bool is_comparable(const struct diff *diff, const struct row_pair *pair)
{
    if (pair->a == CKPT_NO_TENSOR || pair->b == CKPT_NO_TENSOR)
        return false;
    const ckpt_tensor a = row_a(diff, pair), b = row_b(diff, pair);
    return can_compare_rows(&a, &b);
}

/* add_compare_items - adds an item for each pair to compare. Pairs of tied weights, whose rows share their
 * bytes in both files, get one item, found by SEEN (NULL: no ties). False: out of memory. */
static bool add_compare_items(struct diff *diff, map *seen)
{
    for (size_t i = 0; i < diff->npairs && !diff->o->keys_only; i++) {
        struct row_pair *p = &diff->pairs[i];
        uint32_t shared_item = MAP_NONE;
        if (!is_comparable(diff, p))
            continue;
        if (seen && !map_put_num(seen, make_tie_key(diff, p), (uint32_t)diff->nitems, &shared_item))
            return false;
        p->item = shared_item == MAP_NONE ? (uint32_t)diff->nitems : shared_item;
        if (shared_item == MAP_NONE)
            diff->items[diff->nitems++] = (struct parallel_item){
                .file = diff->a, .other = diff->b, .row = p->a, .other_row = p->b, .tag = (uint32_t)i};
    }
    return true;
}

/* compare_array - compares two arrays of text, dates, records or objects by their pickled values. */
static ckpt_status compare_array(struct diff *diff, struct row_pair *pair, struct value_equal *equal,
                                 ckpt_error *err)
{
    bool same = true;
    const ckpt_tensor a = row_a(diff, pair), b = row_b(diff, pair);
    if (a.kind != CKPT_NDARRAY || a.has_data || b.has_data)
        return CKPT_OK;
    ckpt_status st = numpy_array_equal(equal, a.value, b.value, &same, err);
    pair->form_differs = !same;
    pair->is_unread |= equal->has_unread;
    return prefix_where_if_failed(st, pair->name, err);
}

/* subclass_call - returns the call in TENSOR that makes a tensor of a subclass:
 * _rebuild_from_type_v2(function, class, arguments, state). NULL: TENSOR is not made so. */
static const ckpt_value *subclass_call(const ckpt_tensor *tensor)
{
    const ckpt_value *v = tensor->value;
    while (v && value_calls(v, "torch._utils", "_rebuild_parameter", 1))
        v = value_arg(v, 0);
    return v && value_calls(v, "torch._tensor", "_rebuild_from_type_v2", 4) ? v : NULL;
}

/* compare_wrapper - compares class and attributes of two wrapper subclasses. Their components are rows. */
static ckpt_status compare_wrapper(struct diff *diff, struct row_pair *pair, struct value_equal *equal,
                                   ckpt_error *err)
{
    const ckpt_tensor tensor_a = row_a(diff, pair), tensor_b = row_b(diff, pair);
    const ckpt_value *a = subclass_call(&tensor_a), *b = subclass_call(&tensor_b);
    bool same_class = true, same_state = true;
    if (tensor_a.kind != CKPT_WRAPPER || tensor_b.kind != CKPT_WRAPPER || !a || !b)
        return CKPT_OK;
    ckpt_status st = value_equal(equal, value_arg(a, 1), value_arg(b, 1), &same_class, err);
    CKPT_THEN(st, value_equal(equal, value_arg(a, 3), value_arg(b, 3), &same_state, err));
    pair->form_differs = !same_class || !same_state;
    pair->is_unread |= equal->has_unread;
    return prefix_where_if_failed(st, pair->name, err);
}

/* compare_without_bytes - finds the pairs whose values cannot be read, and compares arrays of values. */
static ckpt_status compare_without_bytes(struct diff *diff, ckpt_error *err)
{
    struct value_equal equal = {0};
    ckpt_status st = CKPT_OK;
    for (size_t i = 0; st == CKPT_OK && i < diff->npairs && !diff->o->keys_only; i++) {
        struct row_pair *p = &diff->pairs[i];
        if (p->a == CKPT_NO_TENSOR || p->b == CKPT_NO_TENSOR)
            continue;
        const ckpt_tensor a = row_a(diff, p), b = row_b(diff, p);
        p->is_unread = ckpt_tensor_is_unread(&a) || ckpt_tensor_is_unread(&b);
        st = compare_array(diff, p, &equal, err);
        CKPT_THEN(st, compare_wrapper(diff, p, &equal, err));
    }
    value_equal_free(&equal);
    return st;
}

static ckpt_status list_items(struct diff *diff, ckpt_error *err)
{
    bool tied = has_aliases(diff->a) && has_aliases(diff->b);
    map *seen = tied ? map_new(0) : NULL;
    diff->items = calloc(diff->npairs + 1, sizeof *diff->items);
    bool ok = diff->items && (seen || !tied) && add_compare_items(diff, seen);
    map_free(seen);
    diff->compared = ok ? calloc(diff->nitems + 1, sizeof *diff->compared) : NULL;
    return diff->compared ? CKPT_OK : fail_memory(err);
}

static ckpt_status compare_items(struct diff *diff, ckpt_error *err)
{
    const struct parallel_job parallel = {.items = diff->items,
                                          .n = diff->nitems,
                                          .threads = diff->work.threads,
                                          .process = compare_item,
                                          .process_chunk = compare_pair_chunk,
                                          .join_chunks = merge_comparisons,
                                          .report = report_item,
                                          .progress = diff->work.progress,
                                          .user = diff,
                                          .progress_user = diff->work.user};
    return share_run(&diff->share, &diff->shared_comparisons, &parallel, err);
}

/* ---- sharing */

static void put_row_digest(void *user, size_t index, buf *out)
{
    const struct diff *d = user;
    buf_put(out, d->unmatched[index].digest, XXH3_BYTES);
}

static bool take_row_digest(void *user, size_t index, cursor *in)
{
    const struct diff *d = user;
    const unsigned char *digest = cursor_take(in, XXH3_BYTES);
    if (digest)
        memcpy(d->unmatched[index].digest, digest, XXH3_BYTES);
    return digest != NULL;
}

static void put_sum(const struct scaled_sum *sum, buf *out)
{
    share_put_real(sum->value, out);
    buf_byte(out, (unsigned char)(sum->scale + 1)); /* scales are -1, 0 and 1 */
}

static bool take_sum(struct scaled_sum *out, cursor *in)
{
    out->value = share_take_real(in);
    out->scale = (int)cursor_u8(in) - 1;
    return out->scale <= 1;
}

static void put_comparison(void *user, size_t index, buf *out)
{
    const struct diff *d = user;
    const struct comparison *c = &d->compared[index];
    buf_byte(out, c->identical);
    buf_u64le(out, c->differing);
    share_put_real(c->max_abs, out);
    share_put_real(c->max_rel, out);
    share_put_real(c->sum, out);
    put_sum(&c->norms.aa, out);
    put_sum(&c->norms.bb, out);
    put_sum(&c->norms.ab, out);
    put_sum(&c->norms.dd, out);
}

static bool take_comparison(void *user, size_t index, cursor *in)
{
    const struct diff *d = user;
    struct comparison *c = &d->compared[index];
    const ckpt_tensor t = table_tensor(&d->a->table, d->items[index].row);
    uint8_t identical = cursor_u8(in);
    c->identical = identical == 1;
    c->differing = cursor_u64(in);
    c->max_abs = share_take_real(in);
    c->max_rel = share_take_real(in);
    c->sum = share_take_real(in);
    bool valid = take_sum(&c->norms.aa, in) && take_sum(&c->norms.bb, in) && take_sum(&c->norms.ab, in) &&
                 take_sum(&c->norms.dd, in);
    return valid && identical <= 1 && c->differing <= (t.elements > t.nbytes ? t.elements : t.nbytes);
}

static ckpt_status describe_diff(void *user, struct hash *facts, ckpt_error *err)
{
    const struct diff *d = user;
    const double tolerances[] = {d->o->rtol, d->o->atol};
    unsigned options = (unsigned)(d->o->equal_nan != 0) | (unsigned)(d->o->keys_only != 0) << 1 |
                       (unsigned)(d->o->ignore_dtype != 0) << 2 | (unsigned)(d->o->norms != 0) << 3;
    CKPT_TRY(share_describe_file(d->a, facts, err));
    CKPT_TRY(share_describe_file(d->b, facts, err));
    hash_u64(facts, options);
    hash_put(facts, tolerances, sizeof tolerances);
    for (size_t i = 0; i < d->npairs; i++)
        hash_u64(facts, (uint64_t)d->pairs[i].a << 32 | d->pairs[i].b);
    return CKPT_OK;
}

/* deal_unmatched - deals the rows that may have been renamed to the parts. */
static ckpt_status deal_unmatched(struct diff *diff, ckpt_error *err)
{
    struct parallel_item *items = calloc(diff->nunmatched + 1, sizeof *items);
    CKPT_TRY_ALLOC(items, err);
    for (size_t i = 0; i < diff->nunmatched; i++)
        items[i] = (struct parallel_item){.file = diff->unmatched[i].from_b ? diff->b : diff->a,
                                          .row = diff->unmatched[i].row};
    ckpt_status st = share_deal(&diff->share, items, diff->nunmatched, &diff->shared_digests, err);
    free(items);
    return st;
}

static ckpt_status start_sharing(struct diff *diff, ckpt_error *err)
{
    diff->shared_digests = (struct share_list){.put = put_row_digest, .take = take_row_digest, .user = diff};
    diff->shared_comparisons = (struct share_list){
        .put = put_comparison, .take = take_comparison, .user = diff};
    CKPT_TRY(share_start(&diff->share, &diff->work, "diff", describe_diff, diff, err));
    CKPT_TRY(deal_unmatched(diff, err));
    return share_deal(&diff->share, diff->items, diff->nitems, &diff->shared_comparisons, err);
}

/* exchange_results - takes the results of all parts. */
static ckpt_status exchange_results(struct diff *diff, ckpt_error *err)
{
    const struct share_list lists[] = {diff->shared_digests, diff->shared_comparisons};
    return share_exchange(&diff->share, lists, 2, err);
}

static ckpt_status compare_all(struct diff *diff, ckpt_error *err)
{
    CKPT_TRY(list_unmatched(diff, err));
    CKPT_TRY(list_items(diff, err));
    CKPT_TRY(start_sharing(diff, err));
    CKPT_TRY(hash_candidates(diff, err));
    if (!share_is_on(&diff->share))
        match_candidates(diff); /* before the pairs are compared, because each is reported at once */
    CKPT_TRY(compare_without_bytes(diff, err));
    CKPT_TRY(compare_items(diff, err));
    CKPT_TRY(exchange_results(diff, err));
    if (share_is_on(&diff->share))
        match_candidates(diff);
    return report_pairs(diff, diff->npairs)
               ? CKPT_OK
               : fail(err, CKPT_ECANCELLED, CKPT_NO_OFFSET, "stopped on request");
}

/* One of the two files, and the part of it that is compared. */
struct diff_side {
    ckpt_file *f;
    const char *wanted_root; /* or NULL */
    struct root root;
    struct diff_names names;
};

static bool is_root_missing(const struct diff_side *side)
{
    return side->wanted_root && *side->wanted_root && !side->root.name.len &&
           strcmp(side->wanted_root, "auto") != 0;
}

static ckpt_status fail_no_root(const struct diff_side *side, ckpt_error *err)
{
    ckpt_status st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                          "no tensor is below \"%s\"\n`ckpt ls` lists the names", side->wanted_root);
    return name_file_if_failed(st, side->f->path, err);
}

static ckpt_status find_roots(const ckpt_diff_options *options, struct diff_side *left,
                              struct diff_side *right, ckpt_error *err)
{
    CKPT_TRY(root_find(left->f, left->wanted_root, &left->root, err));
    CKPT_TRY(root_find(right->f, right->wanted_root, &right->root, err));
    bool no_a = is_root_missing(left), no_b = is_root_missing(right);
    if ((no_a && options->root_a) || (no_b && options->root_b))
        return fail_no_root(no_a && options->root_a ? left : right, err);
    if (no_a && no_b)
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "neither file has a tensor below \"%s\"\n`ckpt ls` lists the names", options->root);
    return CKPT_OK;
}

static bool has_selected(const struct diff_side *side, const ckpt_diff_options *options)
{
    return diff_has_row(side->f, options, &side->root) ||
           (!options->tensors_only && !options->keys_only && diff_has_leaf(side->f, options, &side->root));
}

/* any_side_has - returns true if LEFT or RIGHT has a name that the COUNT GLOBS select. */
static bool any_side_has(const struct diff_side *left, const struct diff_side *right,
                         const ckpt_diff_options *options, const char *const *globs, size_t count)
{
    ckpt_diff_options some = *options;
    some.globs = globs;
    some.nglobs = count;
    return has_selected(left, &some) || has_selected(right, &some);
}

/* fail_no_match - fails because neither LEFT nor RIGHT has a name that GLOB (with or without '!') selects. */
static ckpt_status fail_no_match(const struct diff_side *left, const struct diff_side *right,
                                 const ckpt_diff_options *options, const char *glob, ckpt_error *err)
{
    char below[SHELL_WORD_MAX], word[SHELL_WORD_MAX];
    const char *name = glob + (glob[0] == '!'), *pattern = below + (glob[0] == '!');
    ckpt_status st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                          "neither file has a tensor that matches \"%s\"", name);
    snprintf(below, sizeof below, "%s.*", glob);
    if (any_side_has(left, right, options, &pattern, 1))
        error_add_hint(err, "did you mean -g %s?", shell_word(str_c(below), "", "GLOB", word));
    error_add_hint(err, "`ckpt ls` lists the names"); /* no effect if there is a hint */
    return st;
}

/* check_matches - fails if a glob or the ignored prefix matches nothing: a mistyped one must not make two
 * files equal, or different. */
static ckpt_status check_matches(const ckpt_diff_options *options, const struct diff_side *left,
                                 const struct diff_side *right, ckpt_error *err)
{
    if (options->allow_none)
        return CKPT_OK;
    if (options->ignore_prefix && *options->ignore_prefix &&
        !diff_has_prefix(left->f, options, &left->root) && !diff_has_prefix(right->f, options, &right->root))
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "in neither file a name begins with \"%s\"\n"
                    "`ckpt ls` lists the names",
                    options->ignore_prefix);
    for (size_t i = 0; i < options->nglobs; i++) {
        const char *glob = options->globs[i] + (options->globs[i][0] == '!');
        if (!any_side_has(left, right, options, &glob, 1))
            return fail_no_match(left, right, options, options->globs[i], err);
    }
    if (options->nglobs && !any_side_has(left, right, options, options->globs, options->nglobs))
        return fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                    "neither file has a tensor that matches: patterns that begin with ! exclude all");
    return CKPT_OK;
}

/* ---- the error of load_state_dict, as one of the sides */

/* fail_other_checkpoint - fails because the name NAME of ERROR_SIDE contradicts OTHER. */
static ckpt_status fail_other_checkpoint(const struct diff_side *error_side, const struct diff_side *other,
                                         const struct indexed_name *name, ckpt_error *err)
{
    bool is_absent = name->index >= error_side->f->name_list.first_absent;
    bool is_mismatch = table_tensor(&error_side->f->table, name->index).has_shape;
    ckpt_status st = fail(err, CKPT_ENOTFOUND, CKPT_NO_OFFSET,
                          "\"%.*s\" is {%s}, but in this error of load_state_dict it is {=%s}\n"
                          "another checkpoint was loaded, or a part of this one: choose that by --root",
                          STR_ARG(name->name), is_absent || is_mismatch ? "missing" : "there",
                          is_absent     ? "unexpected"
                          : is_mismatch ? "of another shape"
                                        : "missing");
    return name_file_if_failed(st, other->f->path, err);
}

/* is_contradicted - returns true if NAME, a name of ERROR_SIDE, must be in OTHER but is not (INDEXED_NAME
 * NULL), or must not be there but is. A name that is not in the model may be that of a container, or of a
 * value. */
static bool is_contradicted(const struct diff *diff, const struct diff_side *error_side,
                            const struct diff_side *other, const struct indexed_name *name,
                            const struct indexed_name *indexed_name)
{
    bool in_model = name->index < error_side->f->name_list.first_absent;
    if (diff->o->ignore_prefix || other->root.name.len) /* other names than those that were loaded */
        return false;
    if (in_model && !table_tensor(&error_side->f->table, name->index).has_shape)
        return indexed_name != NULL;
    return !indexed_name && (in_model || !diff_has_leaf(other->f, diff->o, &other->root));
}

/* is_below_any - returns true if a container of NAME is one of CONTAINERS. */
static bool is_below_any(const map *containers, ckpt_str name)
{
    size_t dot = 0;
    while ((dot = str_find(name, STR_LIT("."), dot)) != SIZE_MAX)
        if (map_get(containers, str_first(name, dot++)) != MAP_NONE)
            return true;
    return false;
}

/* map_absent - returns a map of the names of SIDE that are not in the model; NULL: no memory. */
static map *map_absent(const struct diff_side *side)
{
    map *absent = map_new(side->names.n);
    for (size_t i = 0; absent && i < side->names.n; i++) {
        const struct indexed_name *e = &side->names.list[i];
        if (e->index >= side->f->name_list.first_absent && !map_put(absent, e->name, e->index, NULL)) {
            map_free(absent);
            return NULL;
        }
    }
    return absent;
}

/* complete_by_other - takes the names that the error does not mention as the same in both: removes them from
 * OTHER, and counts them. Removes from ERROR_SIDE those that are not in the model. */
static ckpt_status complete_by_other(struct diff *diff, struct diff_side *error_side, struct diff_side *other,
                                     ckpt_error *err)
{
    struct diff_join join = {.a = &error_side->names, .b = &other->names};
    struct indexed_name *errors = error_side->names.list, *others = other->names.list;
    size_t nerrors = 0, nothers = 0; /* kept so far: not beyond the names that were read */
    const struct indexed_name *e, *o;
    ckpt_status st = CKPT_OK;
    map *absent = map_absent(error_side);
    CKPT_TRY_ALLOC(absent, err);
    while (st == CKPT_OK && diff_next_pair(&join, &e, &o)) {
        if (e && is_contradicted(diff, error_side, other, e, o))
            st = fail_other_checkpoint(error_side, other, e, err);
        bool is_same = !e && !is_below_any(absent, o->name);
        diff->totals->same += is_same;
        if (e && e->index < error_side->f->name_list.first_absent)
            errors[nerrors++] = *e;
        if (o && !is_same)
            others[nothers++] = *o;
    }
    error_side->names.n = nerrors;
    other->names.n = nothers;
    map_free(absent);
    return st;
}

static ckpt_status apply_load_error(struct diff *diff, struct diff_side *left, struct diff_side *right,
                                    ckpt_error *err)
{
    if (left->f->name_list.is_load_error && right->f->name_list.is_load_error)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "both are errors of load_state_dict\ncompare each with the checkpoint that was loaded");
    if (left->f->name_list.is_load_error)
        return complete_by_other(diff, left, right, err);
    return right->f->name_list.is_load_error ? complete_by_other(diff, right, left, err) : CKPT_OK;
}

static ckpt_status list_pairs(struct diff *diff, struct diff_side *left, struct diff_side *right,
                              ckpt_error *err)
{
    CKPT_TRY(find_roots(diff->o, left, right, err));
    CKPT_TRY(check_matches(diff->o, left, right, err));
    CKPT_TRY(diff_list_rows(left->f, diff->o, &left->root, &left->names, err));
    CKPT_TRY(diff_list_rows(right->f, diff->o, &right->root, &right->names, err));
    CKPT_TRY(apply_load_error(diff, left, right, err));
    return pair_rows(diff, &left->names, &right->names, err);
}

static ckpt_status diff_files(struct diff *diff, ckpt_error *err)
{
    struct diff_side a = {.f = diff->a, .wanted_root = diff->o->root_a ? diff->o->root_a : diff->o->root},
                     b = {.f = diff->b, .wanted_root = diff->o->root_b ? diff->o->root_b : diff->o->root};
    ckpt_status st = list_pairs(diff, &a, &b, err);
    free(a.names.list);
    free(b.names.list);
    CKPT_TRY(st);
    return compare_all(diff, err);
}

ckpt_status ckpt_diff(ckpt_file *left, ckpt_file *right, const ckpt_diff_options *opts,
                      int (*event)(void *user, const ckpt_diff_event *), void *user, ckpt_diff_totals *totals,
                      ckpt_error *err)
{
    CKPT_OWN_ERROR(err);
    ckpt_diff_options o;
    ckpt_diff_totals local_totals = {0};
    struct diff d = {.a = left, .b = right, .o = &o, .event = event, .user = user, .totals = &local_totals};
    CKPT_TRY(totals ? sized_struct_clear(totals, err) : CKPT_OK);
    CKPT_TRY(sized_struct_copy_in(opts, &o, sizeof o, err));
    CKPT_REQUIRE(err, left && right && has_no_null(o.globs, o.nglobs));
    d.work = (ckpt_work){.threads = o.threads, .progress = o.progress, .user = o.user};
    if (o.how)
        CKPT_TRY(sized_struct_copy_in(o.how, &d.work, sizeof d.work, err));
    ckpt_status st = diff_files(&d, err);
    if (totals && st == CKPT_OK)
        sized_struct_copy_out(totals, &local_totals, sizeof local_totals);
    free(d.pairs);
    free(d.items);
    free(d.compared);
    free(d.unmatched);
    free(d.shared_digests.owners);
    free(d.shared_comparisons.owners);
    return st;
}
