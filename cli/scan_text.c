/* scan_text.c - prints the findings of `ckpt scan` as lines; equal findings once, with a count. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scan.h"

/* Lines for findings above notes; for notes; for harmless calls and notes, if --all prints the calls. Notes
 * have lines of their own, so that no number of them hides a finding. There are more slots than lines, so
 * that a search ends at an empty one. */
enum { MAX_LINES = 1000, MAX_NOTES = 100, MAX_CALLS = 1000, SLOTS = 4096 };

struct finding {
    struct text key, line;
    enum style style;
    uint64_t times;
};

static struct finding *findings; /* of the current file */
static size_t nfindings, nminor; /* all of them; notes and harmless calls */
static uint64_t nnot_listed;     /* findings beyond these limits */
static uint32_t slots[SLOTS];    /* hash table by key: index in findings + 1; 0: empty */
bool scan_all_calls;

bool scan_shows_verdict(const ckpt_scan_record *record)
{
    return record->what == CKPT_SCAN_CALL || record->opcode;
}

void scan_callable(struct text *text, const ckpt_scan_record *record)
{
    if (record->new_module.len || record->new_name.len)
        text_addf(text, "%s.%s", escape_name(record->new_module), escape_name(record->new_name));
}

/* add_arguments - adds the arguments of the call, "('ls', 1)". */
static void add_arguments(struct text *text, const ckpt_scan_record *record)
{
    const ckpt_value *key, *arg;
    size_t n = record->args ? ckpt_value_count(record->args) : 0;
    text_add(text, "(");
    for (size_t i = 0; i < n && i < 8 && ckpt_value_item(record->args, i, &key, &arg); i++) {
        text_add(text, i ? ", " : "");
        text_value(text, arg, 8);
    }
    text_add(text, n > 8 ? ", …)" : ")");
}

void scan_message(struct text *text, const ckpt_scan_record *record)
{
    bool is_call = record->what == CKPT_SCAN_CALL,
         has_callable = record->new_module.len || record->new_name.len;
    scan_callable(text, record);
    if (is_call) {
        text_add(text, has_callable ? "" : "?");
        add_arguments(text, record);
    }
    bool needs_gap = is_call ? record->text.len != 0 : record->new_module.len != 0;
    text_addf(text, "%s%.*s", needs_gap ? "  " : "", (int)record->text.len, record->text.ptr);
}

static void free_findings(void)
{
    for (size_t i = 0; i < nfindings; i++) {
        text_free(&findings[i].key);
        text_free(&findings[i].line);
    }
    free(findings);
    findings = NULL;
    nfindings = 0;
    nminor = 0;
    nnot_listed = 0;
    memset(slots, 0, sizeof slots);
}

/* find_finding - returns the finding with this KEY, or NULL. Sets *SLOT to its slot, or to an empty slot. */
static struct finding *find_finding(const char *key, uint32_t **slot)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    for (size_t i = 0;; i++) {
        *slot = &slots[(hash + i) % SLOTS];
        if (!**slot)
            return NULL;
        if (strcmp(findings[**slot - 1].key.ptr, key) == 0)
            return &findings[**slot - 1];
    }
}

static void add_location_text(struct text *text, const ckpt_scan_record *record)
{
    text_name(text, record->where);
    if (record->offset != CKPT_NO_OFFSET)
        text_addf(text, "%sbyte 0x%" PRIx64, record->where.len ? " " : "", record->offset);
    else if (!record->where.len)
        text_add(text, "the file");
}

static void add_finding_line(struct text *text, const ckpt_scan_record *record)
{
    static const enum style styles[] = {[CKPT_SCAN_NOTE] = DIM,
                                        [CKPT_SCAN_INCOMPLETE] = YELLOW,
                                        [CKPT_SCAN_WARNING] = YELLOW,
                                        [CKPT_SCAN_ERROR] = RED};
    enum style style = record->level < sizeof styles / sizeof *styles ? styles[record->level] : PLAIN;
    text_addf(text, "  %s%-6s %-10s%s  ", style_on(style), record->rule ? record->rule->id : "",
              record->rule ? ckpt_scan_level_name(record->level) : "ok", style_off(style));
    add_location_text(text, record);
    if (record->opcode)
        text_addf(text, "  %s", record->opcode);
    text_add(text, "  ");
    scan_message(text, record);
    if (record->call && record->error_offset != CKPT_NO_OFFSET)
        text_addf(text, "  runs before the error at 0x%" PRIx64, record->error_offset);
    if (record->framed)
        text_add(text, "  only in loaders that read by frames");
    if (record->plain)
        text_add(text, "  only in pickle.load, not in joblib.load");
}

static void scan_text_begin_file(const char *path)
{
    (void)path;
    free_findings();
}

static void scan_text_record(const ckpt_scan_record *record)
{
    struct text key = {0};
    uint32_t *slot = NULL;
    bool is_summary = record->what == CKPT_SCAN_PICKLE || record->what == CKPT_SCAN_MEMBER;
    bool is_harmless_call = !is_summary && !record->rule;
    if (is_summary || (is_harmless_call && !scan_all_calls) || (record->level == CKPT_SCAN_NOTE && ui.quiet))
        return;
    text_add(&key, record->rule ? record->rule->id : "-");
    text_name(&key, record->where);
    text_addf(&key, " %d %.*s.%.*s ", record->what, (int)record->new_module.len,
              record->new_module.ptr ? record->new_module.ptr : "", (int)record->new_name.len,
              record->new_name.ptr ? record->new_name.ptr : "");
    text_addf(&key, "%d%d ", record->framed, record->plain);
    text_bytes(&key, record->text.ptr ? record->text.ptr : "", record->text.len);
    if (record->level == CKPT_SCAN_ERROR) /* os.system('ls') must not stand for os.system('rm -rf x') */
        scan_message(&key, record);
    bool is_abbreviated = record->level == CKPT_SCAN_ERROR &&
                          strstr(key.ptr, "…"); /* may differ in the rest */
    struct finding *old = scan_all_calls || is_abbreviated ? NULL : find_finding(key.ptr, &slot);
    bool is_minor = is_harmless_call || record->level == CKPT_SCAN_NOTE;
    size_t max_minor = scan_all_calls ? MAX_CALLS : MAX_NOTES;
    if (old || (is_minor ? nminor == max_minor : nfindings - nminor == MAX_LINES)) {
        if (old)
            old->times++;
        else
            nnot_listed++;
        text_free(&key);
        return;
    }
    findings = mem_make_room(findings, nfindings, sizeof *findings);
    findings[nfindings] = (struct finding){.key = key, .times = 1};
    add_finding_line(&findings[nfindings].line, record);
    nfindings++;
    nminor += is_minor;
    if (slot)
        *slot = (uint32_t)nfindings;
}

static void add_noun(struct text *text, uint64_t count, const char *singular, const char *plural)
{
    text_addf(text, "%s%s", text->len ? ", " : "", show_noun(count, singular, plural));
}

int scan_verdict(const ckpt_scan_result *result, int code)
{
    if (result->verdict > CKPT_SCAN_ALLOW_LISTED)
        return (int)result->verdict;
    if (result->found[CKPT_SCAN_WARNING] || result->found[CKPT_SCAN_ERROR])
        return SCAN_STRUCTURE;
    if (result->found[CKPT_SCAN_INCOMPLETE] || code == EXIT_TROUBLE)
        return SCAN_INCOMPLETE;
    return (int)result->verdict;
}

const char *scan_verdict_name(int verdict)
{
    return verdict == SCAN_STRUCTURE    ? "STRUCTURE"
           : verdict == SCAN_INCOMPLETE ? "INCOMPLETE"
                                        : ckpt_scan_verdict_name((ckpt_scan_verdict)verdict);
}

void scan_print_summary(const uint64_t files[SCAN_VERDICTS], uint64_t nmissing)
{
    static const struct {
        int verdict;
        const char *text;
    } advice[] = {
        {CKPT_SCAN_KNOWN_EXEC,
         "do not load it; if it is a checkpoint, `ckpt sanitize` keeps only its tensors and plain data"},
        {CKPT_SCAN_UNRESOLVED,
         "do not load it unless you made it: what it calls shows only when it is loaded"},
        {CKPT_SCAN_UNKNOWN_CALLABLE, "load it only if you know every name above and trust who made it"},
        {SCAN_STRUCTURE,
         "programs may read different things out of it; fetch it again, or see `ckpt doctor`"},
        {SCAN_INCOMPLETE, "what could not be inspected may do anything"}};
    static const int worst_first[SCAN_VERDICTS] = {
        CKPT_SCAN_KNOWN_EXEC, CKPT_SCAN_UNRESOLVED,   CKPT_SCAN_UNKNOWN_CALLABLE, SCAN_STRUCTURE,
        SCAN_INCOMPLETE,      CKPT_SCAN_ALLOW_LISTED, CKPT_SCAN_DATA_ONLY};
    struct text counts = {0};
    uint64_t all = 0;
    for (int v = 0; v < SCAN_VERDICTS; v++)
        all += files[v];
    for (int i = 0; i < SCAN_VERDICTS; i++)
        if (files[worst_first[i]])
            text_addf(&counts, "%s%" PRIu64 " %s", counts.len ? ", " : "", files[worst_first[i]],
                      scan_verdict_name(worst_first[i]));
    if (all > 1)
        print_text(stdout, "%" PRIu64 " files: %s\n", all, counts.ptr);
    text_free(&counts);
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (files[advice[i].verdict] > (advice[i].verdict == SCAN_INCOMPLETE ? nmissing : 0))
            print_text(stdout, "hint: %s%s%s\n", all > 1 ? scan_verdict_name(advice[i].verdict) : "",
                       all > 1 ? ": " : "", advice[i].text);
}

static void scan_text_end_file(const char *path, const ckpt_scan_result *result, const ckpt_error *err,
                               int code)
{
    static const enum style styles[] = {[EXIT_OK] = GREEN, [EXIT_NO] = RED, [EXIT_TROUBLE] = YELLOW};
    struct text t = {0}, sums = {0};
    if (ui.quiet && code == EXIT_OK)
        return;
    text_addf(&t, "%s%-16s%s  %s%s%s", style_on(styles[code]), scan_verdict_name(scan_verdict(result, code)),
              style_off(styles[code]), style_on(BOLD), escape_name(str_c(path)), style_off(BOLD));
    if (result->format)
        text_add(&sums, result->format);
    if (result->members)
        add_noun(&sums, result->members, "member", "members");
    if (result->pickles) {
        add_noun(&sums, result->pickles, "pickle", "pickles");
        add_noun(&sums, result->calls, "call", "calls");
    }
    if (!err && result->accounted < result->bytes)
        text_addf(&sums, "%s%s not accounted for", sums.len ? ", " : "",
                  show_size(result->bytes - result->accounted));
    if (sums.len)
        text_addf(&t, "   %s", sums.ptr);
    put_line(t.ptr);
    for (size_t i = 0; i < nfindings; i++)
        if (findings[i].times > 1)
            line_printf("%s  %" PRIu64 " times", findings[i].line.ptr, findings[i].times);
        else
            line_put(&findings[i].line);
    if (nnot_listed)
        line_printf("  and %" PRIu64 " more: --json lists all", nnot_listed);
    text_free(&t);
    text_free(&sums);
    free_findings();
}

const struct scan_report scan_text = {
    .begin_file = scan_text_begin_file, .record = scan_text_record, .end_file = scan_text_end_file};
