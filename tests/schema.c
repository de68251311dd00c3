/*
 * schema.c - schema FOLDER <LINES: validates every line that is a JSON object with a "schema" key against
 * that document in FOLDER; other lines are skipped. Ends with "schema: N passed, N failed".
 *
 * It implements the keywords of JSON Schema that man/schema uses: type, properties, required, items,
 * additionalProperties, enum, const, minimum, anyOf and $ref. Any other keyword is an error, because it would
 * go unchecked. Stricter than the standard, it fails for a property that the document does not list, except
 * NAME_hex next to a listed NAME, and for a listed property that no line has.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOCS = 64, MAX_TEXT = 1 << 20, MAX_PATH = 4096 };

struct doc {
    char name[128];
    cJSON *root;
};

static const char *folder;
static struct doc docs[MAX_DOCS];
static size_t ndocs;
static size_t passed, failed;
static bool quiet; /* while the alternatives of an anyOf are tried */

static _Noreturn void die(const char *what, const char *name)
{
    fprintf(stderr, "schema: %s: %s\n", name, what);
    exit(2);
}

static cJSON *read_json(const char *path)
{
    static char text[MAX_TEXT];
    FILE *f = fopen(path, "r");
    if (!f)
        return NULL;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cJSON *root = cJSON_Parse(text);
    if (!root)
        die("is not JSON", path);
    return root;
}

/* find_doc - returns the document NAME, as "ckpt.ls.v1.json", reading it the first time; NULL: there is
 * none. */
static struct doc *find_doc(const char *name)
{
    for (size_t i = 0; i < ndocs; i++)
        if (strcmp(docs[i].name, name) == 0)
            return &docs[i];
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    cJSON *root = strchr(name, '/') || ndocs == MAX_DOCS ? NULL : read_json(path);
    if (!root)
        return NULL;
    snprintf(docs[ndocs].name, sizeof docs->name, "%s", name);
    docs[ndocs].root = root;
    return &docs[ndocs++];
}

/* follow_ref - returns the schema that the $ref "FILE#/$defs/NAME" refers to and sets *DOC to FILE's
 * document, if FILE is not empty. */
static cJSON *follow_ref(const char *ref, struct doc **doc)
{
    char file[128];
    const char *hash = strchr(ref, '#');
    if (!hash || strncmp(hash, "#/$defs/", 8) != 0)
        die("a $ref that is not to #/$defs/", ref);
    snprintf(file, sizeof file, "%.*s", (int)(hash - ref), ref);
    if (*file)
        *doc = find_doc(file);
    cJSON *to = *doc ? cJSON_GetObjectItemCaseSensitive(
                           cJSON_GetObjectItemCaseSensitive((*doc)->root, "$defs"), hash + 8)
                     : NULL;
    if (!to)
        die("does not exist", ref);
    return to;
}

static bool report_fault(const char *where, const char *what, const char *detail)
{
    if (!quiet)
        printf("  %s: %s%s%s\n", where, what, *detail ? " " : "", detail);
    return false;
}

static bool is_type(const cJSON *v, const char *type)
{
    return strcmp(type, "string") == 0    ? cJSON_IsString(v)
           : strcmp(type, "integer") == 0 ? cJSON_IsNumber(v) && floor(v->valuedouble) == v->valuedouble
           : strcmp(type, "number") == 0  ? cJSON_IsNumber(v)
           : strcmp(type, "boolean") == 0 ? cJSON_IsBool(v)
           : strcmp(type, "array") == 0   ? cJSON_IsArray(v)
           : strcmp(type, "object") == 0  ? cJSON_IsObject(v)
                                          : strcmp(type, "null") == 0 && cJSON_IsNull(v);
}

static bool check_value(const cJSON *v, cJSON *schema, struct doc *doc, const char *where);

static bool check_type(const cJSON *v, const cJSON *type, const char *where)
{
    const cJSON *one;
    if (cJSON_IsString(type))
        return is_type(v, type->valuestring) || report_fault(where, "is not of type", type->valuestring);
    cJSON_ArrayForEach(one, type) if (is_type(v, one->valuestring)) return true;
    return report_fault(where, "is of none of the types", "");
}

static bool check_enum(const cJSON *v, const cJSON *words, const char *where)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, words) if (cJSON_Compare(v, one, true)) return true;
    return report_fault(where, "is none of the enum:", cJSON_IsString(v) ? v->valuestring : "");
}

static bool check_any_of(const cJSON *v, const cJSON *choices, struct doc *doc, const char *where)
{
    cJSON *one;
    bool was = quiet;
    cJSON_ArrayForEach(one, choices)
    {
        quiet = true;
        bool ok = check_value(v, one, doc, where);
        quiet = was;
        if (ok)
            return true;
    }
    return report_fault(where, "matches none of anyOf", "");
}

static bool check_items(const cJSON *v, cJSON *schema, struct doc *doc, const char *where)
{
    const cJSON *one;
    char there[MAX_PATH];
    bool ok = true;
    int i = 0;
    if (!cJSON_IsArray(v))
        return true;
    cJSON_ArrayForEach(one, v)
    {
        snprintf(there, sizeof there, "%s[%d]", where, i++);
        ok = check_value(one, schema, doc, there) && ok;
    }
    return ok;
}

static bool is_hex_twin(const cJSON *one, const cJSON *properties)
{
    size_t n = strlen(one->string);
    char name[128];
    if (n < 5 || n >= sizeof name || strcmp(one->string + n - 4, "_hex") != 0)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(n - 4), one->string);
    return cJSON_IsString(one) && cJSON_GetObjectItemCaseSensitive(properties, name);
}

static bool check_properties(const cJSON *v, cJSON *schema, struct doc *doc, const char *where)
{
    cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    cJSON *additional = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *one;
    char there[MAX_PATH];
    bool ok = true;
    if (!cJSON_IsObject(v) || (!properties && !additional))
        return true;
    cJSON_ArrayForEach(one, v)
    {
        cJSON *listed = cJSON_GetObjectItemCaseSensitive(properties, one->string);
        snprintf(there, sizeof there, "%s.%s", where, one->string);
        if (listed)
            listed->valueint = 1; /* seen */
        if (listed || additional)
            ok = check_value(one, listed ? listed : additional, doc, there) && ok;
        else if (!is_hex_twin(one, properties))
            ok = report_fault(there, "is not listed", "");
    }
    return ok;
}

static bool check_required(const cJSON *v, const cJSON *names, const char *where)
{
    const cJSON *one;
    bool ok = true;
    cJSON_ArrayForEach(one, names) if (cJSON_IsObject(v) && !cJSON_HasObjectItem(v, one->valuestring))
        ok = report_fault(where, "lacks", one->valuestring);
    return ok;
}

/* check_value - validates V against each keyword of SCHEMA. */
static bool check_value(const cJSON *v, cJSON *schema, struct doc *doc, const char *where)
{
    static const char *const ignored[] = {"description", "title", "$schema",
                                          "$id",         "$defs", "additionalProperties"};
    cJSON *word;
    bool ok = true;
    cJSON_ArrayForEach(word, schema)
    {
        const char *name = word->string;
        struct doc *to = doc;
        bool known = false;
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            known = known || strcmp(name, ignored[i]) == 0;
        if (strcmp(name, "type") == 0)
            ok = check_type(v, word, where) && ok;
        else if (strcmp(name, "const") == 0)
            ok = (cJSON_Compare(v, word, true) || report_fault(where, "is not the const", "")) && ok;
        else if (strcmp(name, "enum") == 0)
            ok = check_enum(v, word, where) && ok;
        else if (strcmp(name, "minimum") == 0)
            ok = (!cJSON_IsNumber(v) || v->valuedouble >= word->valuedouble ||
                  report_fault(where, "is too small", "")) &&
                 ok;
        else if (strcmp(name, "anyOf") == 0)
            ok = check_any_of(v, word, doc, where) && ok;
        else if (strcmp(name, "items") == 0)
            ok = check_items(v, word, doc, where) && ok;
        else if (strcmp(name, "properties") == 0)
            ok = check_properties(v, schema, doc, where) && ok;
        else if (strcmp(name, "required") == 0)
            ok = check_required(v, word, where) && ok;
        else if (strcmp(name, "$ref") == 0) {
            cJSON *target = follow_ref(word->valuestring, &to);
            ok = check_value(v, target, to, where) && ok;
        } else if (!known)
            die("a keyword that this program does not check", name);
    }
    if (!cJSON_HasObjectItem(schema, "properties") && cJSON_HasObjectItem(schema, "additionalProperties"))
        ok = check_properties(v, schema, doc, where) && ok;
    return ok;
}

static void check_line(const char *line)
{
    char name[128];
    cJSON *v = cJSON_Parse(line);
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(v, "schema");
    if (!cJSON_IsString(schema)) {
        cJSON_Delete(v);
        return;
    }
    snprintf(name, sizeof name, "%s.json", schema->valuestring);
    struct doc *doc = find_doc(name);
    if (doc ? check_value(v, doc->root, doc, schema->valuestring)
            : report_fault(name, "there is no such document", "")) {
        passed++;
    } else {
        failed++;
        printf("  in: %.*s\n", 200, line);
    }
    cJSON_Delete(v);
}

/* report_unseen - reports each property below SCHEMA that no line had, as check_properties() recorded. */
static void report_unseen(const cJSON *schema, const char *where)
{
    const cJSON *one;
    char there[MAX_PATH];
    bool properties = schema->string && strcmp(schema->string, "properties") == 0;
    cJSON_ArrayForEach(one, schema)
    {
        snprintf(there, sizeof there, "%s%s%s", where, one->string ? "." : "",
                 one->string ? one->string : "");
        if (properties && !one->valueint) {
            printf("  %s: is in no line\n", there);
            failed++;
        }
        if (cJSON_IsObject(one) || cJSON_IsArray(one))
            report_unseen(one, there);
    }
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t cap = 0;
    if (argc != 2)
        die("usage: schema FOLDER <LINES", argv[0]);
    folder = argv[1];
    while (getline(&line, &cap, stdin) > 0)
        if (*line == '{')
            check_line(line);
    free(line);
    for (size_t i = 0; i < ndocs; i++) {
        report_unseen(docs[i].root, docs[i].name);
        cJSON_Delete(docs[i].root);
    }
    printf("schema: %zu passed, %zu failed\n", passed, failed);
    return failed != 0;
}
