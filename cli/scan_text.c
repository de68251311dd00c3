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

bool scan_shows_verdict(const ckpt_scan_record *r) { return r->what == CKPT_SCAN_CALL || r->opcode; }

void scan_callable(struct text *t, const ckpt_scan_record *r)
{
    if (r->new_module.len || r->new_name.len)
        text_addf(t, "%s.%s", escape_name(r->new_module), escape_name(r->new_name));
}

/* add_arguments - adds the arguments of the call, "('ls', 1)". */
static void add_arguments(struct text *t, const ckpt_scan_record *r)
{
    const ckpt_value *key, *arg;
    size_t n = r->args ? ckpt_value_count(r->args) : 0;
    text_add(t, "(");
    for (size_t i = 0; i < n && i < 8 && ckpt_value_item(r->args, i, &key, &arg); i++) {
        text_add(t, i ? ", " : "");
        text_value(t, arg, 8);
    }
    text_add(t, n > 8 ? ", …)" : ")");
}

void scan_message(struct text *t, const ckpt_scan_record *r)
{
    bool is_call = r->what == CKPT_SCAN_CALL, has_callable = r->new_module.len || r->new_name.len;
    scan_callable(t, r);
    if (is_call) {
        text_add(t, has_callable ? "" : "?");
        add_arguments(t, r);
    }
    bool needs_gap = is_call ? r->text.len != 0 : r->new_module.len != 0;
    text_addf(t, "%s%.*s", needs_gap ? "  " : "", (int)r->text.len, r->text.ptr);
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

static void add_location_text(struct text *t, const ckpt_scan_record *r)
{
    text_name(t, r->where);
    if (r->offset != CKPT_NO_OFFSET)
        text_addf(t, "%sbyte 0x%" PRIx64, r->where.len ? " " : "", r->offset);
    else if (!r->where.len)
        text_add(t, "the file");
}

static void add_finding_line(struct text *t, const ckpt_scan_record *r)
{
    static const enum style styles[] = {[CKPT_SCAN_NOTE] = DIM,
                                        [CKPT_SCAN_INCOMPLETE] = YELLOW,
                                        [CKPT_SCAN_WARNING] = YELLOW,
                                        [CKPT_SCAN_ERROR] = RED};
    enum style style = r->level < sizeof styles / sizeof *styles ? styles[r->level] : PLAIN;
    text_addf(t, "  %s%-6s %-10s%s  ", style_on(style), r->rule ? r->rule->id : "",
              r->rule ? ckpt_scan_level_name(r->level) : "ok", style_off(style));
    add_location_text(t, r);
    if (r->opcode)
        text_addf(t, "  %s", r->opcode);
    text_add(t, "  ");
    scan_message(t, r);
    if (r->call && r->error_offset != CKPT_NO_OFFSET)
        text_addf(t, "  runs before the error at 0x%" PRIx64, r->error_offset);
    if (r->framed)
        text_add(t, "  only in loaders that read by frames");
    if (r->plain)
        text_add(t, "  only in pickle.load, not in joblib.load");
}

static void scan_text_begin_file(const char *path)
{
    (void)path;
    free_findings();
}

static void scan_text_record(const ckpt_scan_record *r)
{
    struct text key = {0};
    uint32_t *slot = NULL;
    bool is_summary = r->what == CKPT_SCAN_PICKLE || r->what == CKPT_SCAN_MEMBER;
    bool is_harmless_call = !is_summary && !r->rule;
    if (is_summary || (is_harmless_call && !scan_all_calls) || (r->level == CKPT_SCAN_NOTE && ui.quiet))
        return;
    text_add(&key, r->rule ? r->rule->id : "-");
    text_name(&key, r->where);
    text_addf(&key, " %d %.*s.%.*s ", r->what, (int)r->new_module.len,
              r->new_module.ptr ? r->new_module.ptr : "", (int)r->new_name.len,
              r->new_name.ptr ? r->new_name.ptr : "");
    text_addf(&key, "%d%d ", r->framed, r->plain);
    text_bytes(&key, r->text.ptr ? r->text.ptr : "", r->text.len);
    if (r->level == CKPT_SCAN_ERROR) /* os.system('ls') must not stand for os.system('rm -rf x') */
        scan_message(&key, r);
    bool is_abbreviated = r->level == CKPT_SCAN_ERROR && strstr(key.ptr, "…"); /* may differ in the rest */
    struct finding *old = scan_all_calls || is_abbreviated ? NULL : find_finding(key.ptr, &slot);
    bool is_minor = is_harmless_call || r->level == CKPT_SCAN_NOTE;
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
    add_finding_line(&findings[nfindings].line, r);
    nfindings++;
    nminor += is_minor;
    if (slot)
        *slot = (uint32_t)nfindings;
}

static void add_noun(struct text *t, uint64_t n, const char *singular, const char *plural)
{
    text_addf(t, "%s%s", t->len ? ", " : "", show_noun(n, singular, plural));
}

int scan_verdict(const ckpt_scan_result *r, int code)
{
    if (r->verdict > CKPT_SCAN_ALLOW_LISTED)
        return (int)r->verdict;
    if (r->found[CKPT_SCAN_WARNING] || r->found[CKPT_SCAN_ERROR])
        return SCAN_STRUCTURE;
    if (r->found[CKPT_SCAN_INCOMPLETE] || code == EXIT_TROUBLE)
        return SCAN_INCOMPLETE;
    return (int)r->verdict;
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

static void scan_text_end_file(const char *path, const ckpt_scan_result *r, const ckpt_error *err, int code)
{
    static const enum style styles[] = {[EXIT_OK] = GREEN, [EXIT_NO] = RED, [EXIT_TROUBLE] = YELLOW};
    struct text t = {0}, sums = {0};
    if (ui.quiet && code == EXIT_OK)
        return;
    text_addf(&t, "%s%-16s%s  %s%s%s", style_on(styles[code]), scan_verdict_name(scan_verdict(r, code)),
              style_off(styles[code]), style_on(BOLD), escape_name(str_of(path)), style_off(BOLD));
    if (r->format)
        text_add(&sums, r->format);
    if (r->members)
        add_noun(&sums, r->members, "member", "members");
    if (r->pickles) {
        add_noun(&sums, r->pickles, "pickle", "pickles");
        add_noun(&sums, r->calls, "call", "calls");
    }
    if (!err && r->accounted < r->bytes)
        text_addf(&sums, "%s%s not accounted for", sums.len ? ", " : "", show_size(r->bytes - r->accounted));
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
