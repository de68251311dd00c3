#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outputs.h"
#include "remote.h"

static struct {
    struct list unset;
} opts;

static const struct opt options[] = {
    {'u', "unset", "KEY", OPT_LIST, &opts.unset, "remove KEY; repeatable"},
    OUTPUT_OPTION,
    {'i', "in-place", NULL, OPT_FLAG, &writing.in_place, "change the metadata of FILE itself"},
    {0, "follow-links", NULL, OPT_FLAG, &writing.follow_links, "with --in-place: edit a linked file too"},
    {0, "check", NULL, OPT_FLAG, &writing.check, "write nothing; exit 1 if something would change"},
    {0, "strict", NULL, OPT_FLAG, &writing.strict, "fail if a KEY to remove is not there"},
    OVERWRITE_OPTIONS,
    UI_REMOTE_OPTIONS,
    UI_JSON_OPTION,
    UI_QUIET_OPTION,
    {0},
};

const struct cmd cmd_meta = {"meta",
                             "FILE [KEY=VALUE…]",
                             "print or change the metadata of safetensors and GGUF",
                             options,
                             1,
                             NO_LIMIT,
                             run_meta};

/* A key, and its value before and after the edit; from.ptr or to.ptr is NULL if the key is not there then. */
struct change {
    ckpt_str key, from, to;
    bool is_tie;   /* the key is one more name of the tensor called `from` */
    bool is_given; /* the command line sets the key */
};

/* All keys: those of the file, then new ones. */
struct changes {
    struct change *items;
    size_t n, nchanged; /* how many keys there are, and how many of them change */
};

static bool is_same_text(ckpt_str left, ckpt_str right)
{
    return (left.ptr != NULL) == (right.ptr != NULL) && str_is_equal(left, right);
}

static struct change *find_change(struct changes *changes, ckpt_str key)
{
    for (size_t i = 0; i < changes->n; i++)
        if (is_same_text(changes->items[i].key, key))
            return &changes->items[i];
    return NULL;
}

/* --------------------------------------------------------------- the edits */

static void read_metadata(const ckpt_file *f, struct changes *changes, size_t max_new)
{
    ckpt_pair m;
    changes->items = mem_new(ckpt_metadata_count(f) + max_new + 1, sizeof *changes->items);
    for (size_t i = 0; ckpt_metadata_at(f, i, &m); i++)
        changes->items[changes->n++] = (struct change){m.key, m.text, m.text, ckpt_metadata_is_tie(f, i),
                                                       false};
}

/* fail_file_last - reports that the COUNT operands end with FILE, which comes first. */
static int fail_file_last(int count, char **operand)
{
    struct text hint = {0};
    char **ordered = mem_new((size_t)count, sizeof *ordered);
    for (int i = 0; i < count; i++)
        ordered[i] = operand[(i + count - 1) % count];
    edit_suggest(&hint, NULL, count, ordered);
    int status = usage_error_suggest(hint.ptr, "FILE comes first, then KEY=VALUE");
    free(ordered);
    text_free(&hint);
    return status;
}

/* check_operands - checks that the COUNT operands are FILE and KEY=VALUE…. */
static int check_operands(int count, char **operand)
{
    bool begins_with_pair = strchr(operand[0], '=') && !remote_may_exist(operand[0]);
    if (count > 1 && begins_with_pair && remote_may_exist(operand[count - 1]))
        return fail_file_last(count, operand);
    for (int i = 1; i < count; i++) {
        const char *eq = strchr(operand[i], '=');
        if (!eq || eq == operand[i])
            return usage_error("meta", "'%s' is not KEY=VALUE; a command with FILE alone prints all keys",
                               escape_name(str_c(operand[i])));
    }
    return EXIT_OK;
}

/* set_all - sets the keys of COUNT operands, "KEY=VALUE" each. */
static int set_all(struct changes *changes, int count, char **operand)
{
    for (int i = 0; i < count; i++) {
        const char *eq = strchr(operand[i], '=');
        ckpt_str key = {operand[i], (size_t)(eq - operand[i])};
        struct change *change = find_change(changes, key);
        if (!change) {
            change = &changes->items[changes->n++];
            *change = (struct change){.key = key};
        }
        if (change->is_given)
            return usage_error("meta", "'%s' is given twice", escape_name(key));
        change->is_given = true;
        change->to = str_c(eq + 1);
    }
    return EXIT_OK;
}

static int unset_all(const char *input, struct changes *changes)
{
    for (size_t i = 0; i < opts.unset.n; i++) {
        const char *shown = escape_name(str_c(opts.unset.items[i]));
        struct change *change = find_change(changes, str_c(opts.unset.items[i]));
        if (change && change->is_given)
            return usage_error("meta", "'%s' is given twice", shown);
        if (change)
            change->to = (ckpt_str){NULL, 0};
        else if (writing.strict)
            return report_failure(CKPT_ENOTFOUND, input, NULL, "--strict: no key \"%s\"; nothing written",
                                  shown);
        else
            print_notice(input, "no key \"%s\" to remove", shown);
    }
    return EXIT_OK;
}

static void add_pair(struct text *out, ckpt_str key, ckpt_str value)
{
    text_name(out, key);
    text_add(out, "=");
    text_readable(out, value);
}

static void print_meta_change(struct text *out, const struct change *change)
{
    text_add(out, !change->from.ptr ? "+ " : !change->to.ptr ? "- " : "~ ");
    add_pair(out, change->key, change->from.ptr ? change->from : change->to);
    if (change->from.ptr && change->to.ptr) {
        text_add(out, " → ");
        text_readable(out, change->to);
    }
    text_add(out, "\n");
}

/* print_meta_text - prints all pairs or, with ONLY_CHANGES, a line for each change. */
static void print_meta_text(const struct changes *changes, bool only_changes)
{
    struct text out = {0};
    for (size_t i = 0; i < changes->n; i++) {
        const struct change *change = &changes->items[i];
        if (only_changes && !is_same_text(change->from, change->to)) {
            print_meta_change(&out, change);
        } else if (!only_changes) {
            add_pair(&out, change->key, change->to);
            text_add(&out, "\n");
        }
    }
    put_text(report_stream(writing.output), out.ptr ? out.ptr : "");
    text_free(&out);
}

static void text_or_null(json *parent, const char *key, ckpt_str text)
{
    if (text.ptr)
        json_str(parent, key, text);
    else
        json_null(parent, key);
}

static void list_json(const struct changes *changes, json *object)
{
    json *list = json_add_array(object, "metadata");
    for (size_t i = 0; i < changes->n; i++)
        if (changes->items[i].to.ptr) {
            json *item = json_add_object(list, NULL);
            json_str(item, "key", changes->items[i].key);
            json_str(item, "value", changes->items[i].to);
            /* is_tie is about `from`, not about a new value */
            if (is_same_text(changes->items[i].from, changes->items[i].to))
                json_bool(item, "tie", changes->items[i].is_tie);
        }
}

static void changes_json(const struct changes *changes, json *object)
{
    json *list = json_add_array(object, "changes");
    for (size_t i = 0; i < changes->n; i++)
        if (!is_same_text(changes->items[i].from, changes->items[i].to)) {
            json *item = json_add_object(list, NULL);
            json_str(item, "key", changes->items[i].key);
            text_or_null(item, "from", changes->items[i].from);
            text_or_null(item, "to", changes->items[i].to);
        }
}

/* print_metadata - prints all pairs. If OUTPUT is not NULL (the file that was written; "": none), prints the
 * changes instead; JSON then has all pairs, the changes and OUTPUT. */
static void print_metadata(const ckpt_file *f, const char *input, const struct changes *changes,
                           const char *output)
{
    if (!ui.json) {
        print_meta_text(changes, output != NULL);
        return;
    }
    json *j = json_schema("ckpt.meta.v1");
    json_text(j, "file", input);
    json_text(j, "format", ckpt_file_format(f));
    if (output) {
        json *list = json_add_array(j, "output");
        if (*output)
            json_text(list, NULL, output);
        if (writing.dry_run)
            json_bool(j, "dry_run", true);
        if (writing.in_place)
            json_bool(j, "in_place", true);
        json_bool(j, "changed", changes->nchanged != 0);
        changes_json(changes, j);
    }
    list_json(changes, j);
    json_line(j, report_stream(writing.output));
}

/* is_own_tensor - returns true if F has a tensor called NAME that is not a tie recorded in the metadata. */
static bool is_own_tensor(const ckpt_file *f, const struct changes *changes, ckpt_str name)
{
    bool is_tie = false;
    for (size_t i = 0; i < changes->n; i++)
        is_tie |= changes->items[i].is_tie && is_same_text(changes->items[i].key, name);
    return !is_tie && ckpt_tensor_find(f, name) != CKPT_NO_TENSOR;
}

/* makes_tie - returns true if CHANGE gives a tensor of F one more name. */
static bool makes_tie(const ckpt_file *f, const struct changes *changes, const struct change *change)
{
    return change->to.ptr && !is_same_text(change->key, str_c("format")) &&
           !is_same_text(change->key, str_c("__metadata__")) && is_own_tensor(f, changes, change->to) &&
           !is_own_tensor(f, changes, change->key);
}

static void notice_ties(const ckpt_file *f, const char *input, const struct changes *changes)
{
    for (size_t i = 0; i < changes->n; i++) {
        const struct change *change = &changes->items[i];
        if (is_same_text(change->from, change->to))
            continue;
        if (makes_tie(f, changes, change))
            print_notice(input, "\"%s\" becomes a second name of the tensor \"%s\"", escape_name(change->key),
                         escape_name(change->to));
        else if (change->is_tie)
            print_notice(input, "\"%s\" was a second name of \"%s\"; %s", escape_name(change->key),
                         escape_name(change->from),
                         change->to.ptr ? "its value is changed" : "the file no longer has it");
    }
}

static bool may_have_metadata(const ckpt_file *f)
{
    const char *format = ckpt_file_format(f);
    return strcmp(format, "safetensors") == 0 || strcmp(format, "gguf") == 0;
}

/* check_suffix - refuses an output whose suffix is that of another format: the copy has the format of F. */
static int check_suffix(const ckpt_file *f, const char *input)
{
    const char *own = ckpt_file_format(f);
    const char *named = writing.output ? output_path_format(writing.output) : NULL;
    struct text hint = {0};
    if (!named || strcmp(named, own) == 0 || !may_have_metadata(f))
        return EXIT_OK;
    text_addf(&hint, "end the name of the output in %s", ckpt_write_format_suffixes(own));
    int status = report_failure(CKPT_EUSAGE, input, hint.ptr,
                                "%s would be a %s file, whatever its name; nothing written",
                                escape_name(str_c(writing.output)), ckpt_file_title(f));
    text_free(&hint);
    return status;
}

/* hint_copy - makes the hint of ERR the command line that writes a copy of F, called INPUT, with the changes
 * CHANGES. */
static void hint_copy(const ckpt_file *f, const char *input, const struct changes *changes, ckpt_error *err)
{
    struct text hint = {0}, word = {0};
    text_add(&hint, "ckpt meta ");
    text_operand(&hint, input);
    for (size_t i = 0; i < changes->n; i++) {
        const struct change *change = &changes->items[i];
        if (is_same_text(change->from, change->to))
            continue;
        text_clear(&word);
        text_bytes(&word, change->key.ptr, change->key.len);
        text_add(&word, change->to.ptr ? "=" : "");
        text_bytes(&word, change->to.ptr, change->to.len);
        text_add(&hint, change->to.ptr ? " " : " -u ");
        text_shell(&hint, word.ptr);
    }
    text_add(&hint, " -o ");
    text_new_name(&hint, "out", input, ckpt_write_format_suffixes(ckpt_file_format(f)));
    bool fits = hint.len < sizeof err->hint;
    snprintf(err->hint, sizeof err->hint, "%s",
             fits ? hint.ptr : "-o OUT writes a copy with the new metadata");
    text_free(&hint);
    text_free(&word);
}

static int write_changes(ckpt_file *f, const char *input, const struct changes *changes)
{
    ckpt_error err;
    const ckpt_write_options o = edit_write_options();
    ckpt_pair *pairs = mem_new(changes->n + 1, sizeof *pairs);
    size_t n = 0;
    for (size_t i = 0; i < changes->n; i++)
        if (changes->items[i].to.ptr)
            pairs[n++] = (ckpt_pair){changes->items[i].key, changes->items[i].to};
    /* --check, and --dry-run without an output, rehearse a copy: only -i needs room in the old header */
    const char *copy = writing.output && !writing.check ? writing.output : "-";
    ckpt_status s = writing.in_place && !changes->nchanged
                        ? CKPT_OK
                        : ckpt_metadata_write(f, pairs, n, writing.in_place ? NULL : copy, &o, NULL, &err);
    free(pairs);
    if (s == CKPT_EUNSUPPORTED && writing.in_place && !err.hint[0])
        hint_copy(f, input, changes, &err);
    if (s != CKPT_OK)
        return report_error(&err, input);
    notice_ties(f, input, changes);
    const char *output = writing.check || (!writing.in_place && !writing.output) ? ""
                         : writing.in_place                                      ? input
                                                                                 : writing.output;
    if (ui.json || !ui.quiet)
        print_metadata(f, input, changes, output);
    return writing.check && changes->nchanged ? EXIT_NO : EXIT_OK;
}

int run_meta(int count, char **operand)
{
    struct changes c = {0};
    ckpt_recovered what;
    bool has_edits = count > 1 || opts.unset.n;
    int status = check_operands(count, operand);
    if (status == EXIT_OK && has_edits)
        status = edit_check_options("meta", operand[0]);
    if (!has_edits && (writing.output || writing.in_place || writing.check))
        status = usage_error("meta", "nothing to change: give KEY=VALUE or --unset KEY");
    if (status != EXIT_OK || (writing.in_place && !edit_recover(operand[0], &what)))
        return EXIT_TROUBLE;
    ckpt_file *f = open_input(operand[0], false);
    if (!f)
        return EXIT_TROUBLE;
    read_metadata(f, &c, (size_t)count);
    status = set_all(&c, count - 1, operand + 1);
    if (status == EXIT_OK)
        status = unset_all(operand[0], &c);
    for (size_t i = 0; i < c.n; i++)
        c.nchanged += !is_same_text(c.items[i].from, c.items[i].to);
    if (status == EXIT_OK && has_edits)
        status = check_suffix(f, operand[0]);
    if (status == EXIT_OK && has_edits)
        status = write_changes(f, operand[0], &c);
    else if (status == EXIT_OK)
        print_metadata(f, operand[0], &c, NULL);
    if (status == EXIT_OK && !has_edits && !c.n && !may_have_metadata(f))
        print_notice(operand[0], "this %s has no metadata; `ckpt show` prints its values",
                     ckpt_file_title(f));
    free(c.items);
    close_input(f);
    return status;
}
