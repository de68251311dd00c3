/* doctor.c - see doctor.h. */
#include "op/doctor.h"

#include <stdio.h>

#include "base/text.h"
#include "core/python2.h"
#include "op/known_names.h"
#include "op/weights_only.h"

/* -------------------------------------------------------------------- damage */

static bool has_record(const struct check *c, const char *end)
{
    for (size_t i = 0; i < c->nrecords; i++)
        if (str_ends(c->records[i].name, str_c(end)))
            return true;
    return false;
}

bool doctor_failed_save(const struct check *c, const ckpt_file *f)
{
    return !f && has_record(c, "/.data/serialization_id") && !has_record(c, "/data.pkl");
}

/* tell_rule - the first finding of a kind, and how many there are. Numbers that are lost no command
 * brings back: of those the hint names what lists them all. */
static ckpt_status tell_rule(struct doctor *d, enum check_rule rule, const char *id, const char *fix,
                             ckpt_error *err)
{
    const struct symptom *s = &d->symptoms[rule];
    char more[64] = "", text[1024], word[SHELL_MOST];
    bool numbers = rule == CHECK_NOT_FINITE;
    ckpt_error e = s->first;
    if (!s->n)
        return CKPT_OK;
    doctor_unnamed(d, &e);
    if (s->n > 1)
        (void)snprintf(more, sizeof more, " (and %llu more: ckpt verify%s)", (unsigned long long)(s->n - 1),
                       numbers ? " --finite" : "");
    (void)ckpt_error_text(&e, text, sizeof text);
    if (numbers)
        fail_hint(&e,
                  "no command brings the numbers back: take an earlier checkpoint; all such tensors: "
                  "ckpt stat --fail-on nan,inf %s",
                  shell_path(d->path, word));
    d->hint = e.hint;
    return doctor_tell(d, id, true, fix, NULL, err, "%s%s", text, more);
}

ckpt_status doctor_damage(struct doctor *d, const struct check *c, const ckpt_file *f, ckpt_error *err)
{
    static const char salvage[] = "ckpt salvage FILE -o OUT";
    if (doctor_failed_save(c, f))
        return doctor_says(d, "failed-save", NULL, &d->symptoms[CHECK_TRUNCATED].first, err);
    CKPT_TRY(tell_rule(d, CHECK_MISSING_SHARD, "missing-shard", NULL, err));
    CKPT_TRY(tell_rule(d, CHECK_MISSING_TENSOR, "missing-tensor", NULL, err));
    CKPT_TRY(tell_rule(d, CHECK_EXTRA_TENSOR, "extra-tensor", NULL, err));
    CKPT_TRY(tell_rule(d, CHECK_TOTAL_SIZE, "total-size", NULL, err));
    CKPT_TRY(tell_rule(d, CHECK_MALFORMED, "malformed", salvage, err));
    CKPT_TRY(tell_rule(d, CHECK_CHECKSUM, "checksum", salvage, err));
    CKPT_TRY(tell_rule(d, CHECK_DUPLICATE, "duplicate", NULL, err));
    CKPT_TRY(tell_rule(d, CHECK_STRAY, "stray-bytes", f && f->torch_load ? "ckpt convert FILE OUT" : salvage,
                       err));
    return tell_rule(d, CHECK_NOT_FINITE, "not-finite", NULL, err);
}

/* ------------------------------------------------------------------- loading */

/* numpy_name - the first import from numpy's private module NAME; empty: none. */
static ckpt_str numpy_name(const ckpt_file *f, const char *prefix, ckpt_str *name)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            if (str_starts(value_module(g), str_c(prefix))) {
                *name = value_name(g);
                return value_module(g);
            }
        }
    return str_of("", 0);
}

static ckpt_status numpy_names(struct doctor *d, const ckpt_file *f, ckpt_error *err)
{
    ckpt_str name, module = numpy_name(f, "numpy._core", &name);
    if (module.len)
        return doctor_tell(
            d, "numpy-names", true, "ckpt sanitize FILE -o OUT", NULL, err,
            "saved with numpy 2: numpy 1 says No module named 'numpy._core' (it wants %.*s.%.*s)",
            STR_ARG(module), STR_ARG(name));
    module = numpy_name(f, "numpy.core", &name);
    if (!module.len)
        return CKPT_OK;
    return doctor_tell(d, "numpy-names", false, "ckpt sanitize FILE -o OUT", NULL, err,
                       "saved with numpy 1 (%.*s.%.*s): numpy 2 warns that this name is deprecated",
                       STR_ARG(module), STR_ARG(name));
}

/* only_protocol - is it by its opcodes alone that weights_only refuses F? */
static bool only_protocol(const ckpt_file *f)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            if (!weights_only_lists(value_module(g), value_name(g)))
                return false;
        }
    return true;
}

static ckpt_status weights_only(struct doctor *d, ckpt_file *f, ckpt_error *err)
{
    int verdict;
    ckpt_str why;
    CKPT_TRY(weights_only_verdict(f, &verdict, &why, err));
    if (verdict != 0)
        return CKPT_OK;
    d->hint = "weights_only=False runs whatever the file holds: ckpt scan lists that";
    if (f->executes_code && f->torch_load_why.len)
        return doctor_tell(d, "torchscript", false, "ckpt convert FILE OUT", NULL, err,
                           "torch.load does not read it: %.*s", STR_ARG(why));
    if (f->torch_load_why.len)
        return doctor_tell(d, "torch-refuses", true, "ckpt convert FILE OUT", NULL, err,
                           "torch.load refuses it: %.*s", STR_ARG(why));
    if (str_starts(why, STR_LIT("opcode ")))
        return doctor_tell(d, "protocol", true,
                           only_protocol(f) ? "ckpt convert FILE OUT" : "ckpt sanitize FILE -o OUT", NULL,
                           err, "torch.load(weights_only=True) refuses its pickle: %.*s", STR_ARG(why));
    return doctor_tell(d, "weights-only", true, "ckpt sanitize FILE -o OUT", NULL, err,
                       "torch.load(weights_only=True) refuses it: %.*s", STR_ARG(why));
}

static ckpt_status names(struct doctor *d, ckpt_file *f, ckpt_error *err)
{
    ckpt_info info;
    CKPT_TRY(ckpt_inspect(f, &info, err));
    for (size_t i = 0; i < info.nwrappers; i++) {
        const ckpt_wrapper *w = &info.wrappers[i];
        if (!w->certain)
            continue;
        CKPT_TRY(doctor_tell(
            d, "prefix", true, "ckpt strip --auto FILE -o OUT", NULL, err,
            "%llu of %llu keys%s%.*s contain \"%.*s\", left by a wrapper: the bare model has no such keys",
            (unsigned long long)w->tensors, (unsigned long long)w->of, w->where.len ? " of " : "",
            STR_ARG(w->where), STR_ARG(w->prefix)));
        break;
    }
    if (info.has_weights && info.weights_root.len)
        return doctor_tell(d, "nested-weights", false, "ckpt convert --root auto FILE OUT", NULL, err,
                           "the weights are below \"%.*s\": load_state_dict wants only that part",
                           STR_ARG(info.weights_root));
    return CKPT_OK;
}

/* --------------------------------------------------- offsets that torch computes */

/* storage_key - the number that RECORD is called by in data/; false: it is none of those. */
static bool storage_key(const struct record *r, uint64_t *key)
{
    size_t at = str_find(r->name, STR_LIT("/data/"), 0);
    return at != SIZE_MAX && str_uint(str_skip(r->name, at + 6), key); /* bounded: found there */
}

/* alignment_of - what .storage_alignment says; 0: there is nothing that says. */
static uint64_t alignment_of(const struct check *c)
{
    char text[16] = "";
    uint64_t n = 0;
    for (size_t i = 0; i < c->nrecords; i++)
        if (str_ends(c->records[i].name, STR_LIT("/.storage_alignment")) &&
            c->records[i].src->size < sizeof text &&
            source_read(c->records[i].src, 0, text, (size_t)c->records[i].src->size, NULL) == CKPT_OK)
            return str_uint(str_c(text), &n) ? n : 0;
    return 0;
}

/* computed - where torch takes storage NEXT to begin (getRecordOffsetNoRead of
 * caffe2/serialize/inline_container.cc): behind the one that ends at END and its
 * descriptor, a header whose extra field aligns the data. 0: beyond 4 GiB its rules differ. */
static uint64_t computed(uint64_t end, uint64_t name, uint64_t align)
{
    if (end > UINT32_MAX)
        return 0;
    uint64_t at = end + 16 + 30 + name + 4; /* bounded: by the line above */
    return at % align ? at + align - at % align : at;
}

/* stale_offsets - does .format_version stand in an archive that was packed anew? It says
 * that storages are in the order of their numbers and laid out as torch does. */
static ckpt_status stale_offsets(struct doctor *d, const struct check *c, ckpt_error *err)
{
    uint64_t align = alignment_of(c), end = 0, next = 0, key;
    if (!has_record(c, "/.format_version") || !align || align > 1u << 20)
        return CKPT_OK;
    for (size_t i = 0; i < c->nrecords; i++) {
        const struct record *r = &c->records[i];
        if (!storage_key(r, &key))
            continue;
        if (key != next++ || r->at == CKPT_NO_OFFSET || r->src->size == 0)
            return CKPT_OK; /* torch does not compute these */
        uint64_t want = end ? computed(end, r->name.len, align) : r->at;
        if (want && want != r->at)
            return doctor_tell(d, "stale-format-version", true, "ckpt convert FILE OUT", NULL, err,
                               "repacked, but .format_version is still there: torch may look for %.*s at "
                               "byte %llu, it is at %llu",
                               STR_ARG(r->name), (unsigned long long)want, (unsigned long long)r->at);
        end = r->at + r->src->size; /* bounded: inside the file */
    }
    return CKPT_OK;
}

/* runs_code - the first import that is known to run what the file says. */
static ckpt_status runs_code(struct doctor *d, ckpt_file *f, ckpt_error *err)
{
    for (size_t i = 0; i < f->npickles; i++)
        for (size_t k = 0; k < f->pickles[i]->nglobals; k++) {
            const ckpt_value *g = f->pickles[i]->globals[k];
            ckpt_str module = value_module(g), name = value_name(g), module3 = module, name3 = name;
            (void)python2_translate(&module3, &name3);
            if (name_verdict(module3, name3) != CKPT_SCAN_KNOWN_EXEC)
                continue;
            d->hint = "do not load it; ckpt scan lists what it would do";
            return doctor_tell(d, "runs-code", true, NULL, NULL, err,
                               "loading it runs code: it imports %.*s.%.*s", STR_ARG(module), STR_ARG(name));
        }
    return CKPT_OK;
}

ckpt_status doctor_loading(struct doctor *d, const struct check *c, ckpt_file *f, ckpt_error *err)
{
    CKPT_TRY(runs_code(d, f, err));
    CKPT_TRY(weights_only(d, f, err));
    CKPT_TRY(numpy_names(d, f, err));
    CKPT_TRY(stale_offsets(d, c, err));
    return names(d, f, err);
}
