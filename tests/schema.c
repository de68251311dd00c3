/*
 * schema.c - schema FOLDER <LINES: holds every line that is a JSON object of ckpt's against the document in
 * FOLDER that its "schema" names. Other lines are passed over. Ends with "schema: N passed, N failed".
 *
 * It reads what man/schema uses of JSON Schema: type, properties, required, items, additionalProperties,
 * enum, const, minimum, anyOf and $ref. Any other keyword is a failure, so that none is believed to be
 * checked. It is stricter than the standard: a property that no document lists is a failure, except NAME_hex
 * where NAME is a listed text; and so is one that is listed but was in no line.
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
static bool quiet; /* while the choices of an anyOf are tried */

static _Noreturn void stop(const char *what, const char *name)
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
        stop("is not JSON", path);
    return root;
}

/* find_doc - the document NAME, "ckpt.ls.v1.json"; NULL: there is none. */
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

/* follow_ref - what "FILE#/$defs/NAME" means; FILE may be empty. *DOC becomes its document. */
static cJSON *follow_ref(const char *ref, struct doc **doc)
{
    char file[128];
    const char *hash = strchr(ref, '#');
    if (!hash || strncmp(hash, "#/$defs/", 8) != 0)
        stop("not a reference of ours", ref);
    snprintf(file, sizeof file, "%.*s", (int)(hash - ref), ref);
    if (*file)
        *doc = find_doc(file);
    cJSON *to = *doc ? cJSON_GetObjectItemCaseSensitive(
                           cJSON_GetObjectItemCaseSensitive((*doc)->root, "$defs"), hash + 8)
                     : NULL;
    if (!to)
        stop("refers to nothing", ref);
    return to;
}

static bool fault(const char *where, const char *what, const char *detail)
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

static bool check(const cJSON *v, cJSON *schema, struct doc *doc, const char *where);

static bool check_type(const cJSON *v, const cJSON *type, const char *where)
{
    const cJSON *one;
    if (cJSON_IsString(type))
        return is_type(v, type->valuestring) || fault(where, "is not of type", type->valuestring);
    cJSON_ArrayForEach(one, type) if (is_type(v, one->valuestring)) return true;
    return fault(where, "is of none of the types", "");
}

static bool check_enum(const cJSON *v, const cJSON *words, const char *where)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, words) if (cJSON_Compare(v, one, true)) return true;
    return fault(where, "is none of the enum:", cJSON_IsString(v) ? v->valuestring : "");
}

static bool check_any(const cJSON *v, const cJSON *choices, struct doc *doc, const char *where)
{
    cJSON *one;
    bool was = quiet;
    cJSON_ArrayForEach(one, choices)
    {
        quiet = true;
        bool ok = check(v, one, doc, where);
        quiet = was;
        if (ok)
            return true;
    }
    return fault(where, "matches none of anyOf", "");
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
        ok = check(one, schema, doc, there) && ok;
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
    cJSON *others = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *one;
    char there[MAX_PATH];
    bool ok = true;
    if (!cJSON_IsObject(v) || (!properties && !others))
        return true;
    cJSON_ArrayForEach(one, v)
    {
        cJSON *listed = cJSON_GetObjectItemCaseSensitive(properties, one->string);
        snprintf(there, sizeof there, "%s.%s", where, one->string);
        if (listed)
            listed->valueint = 1; /* seen */
        if (listed || others)
            ok = check(one, listed ? listed : others, doc, there) && ok;
        else if (!is_hex_twin(one, properties))
            ok = fault(there, "is not listed", "");
    }
    return ok;
}

static bool check_required(const cJSON *v, const cJSON *names, const char *where)
{
    const cJSON *one;
    bool ok = true;
    cJSON_ArrayForEach(one, names) if (cJSON_IsObject(v) && !cJSON_HasObjectItem(v, one->valuestring))
        ok = fault(where, "lacks", one->valuestring);
    return ok;
}

/* check - V against SCHEMA, keyword by keyword. */
static bool check(const cJSON *v, cJSON *schema, struct doc *doc, const char *where)
{
    static const char *const silent[] = {"description", "title", "$schema",
                                         "$id",         "$defs", "additionalProperties"};
    cJSON *word;
    bool ok = true;
    cJSON_ArrayForEach(word, schema)
    {
        const char *name = word->string;
        struct doc *to = doc;
        bool known = false;
        for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
            known = known || strcmp(name, silent[i]) == 0;
        if (strcmp(name, "type") == 0)
            ok = check_type(v, word, where) && ok;
        else if (strcmp(name, "const") == 0)
            ok = (cJSON_Compare(v, word, true) || fault(where, "is not the const", "")) && ok;
        else if (strcmp(name, "enum") == 0)
            ok = check_enum(v, word, where) && ok;
        else if (strcmp(name, "minimum") == 0)
            ok = (!cJSON_IsNumber(v) || v->valuedouble >= word->valuedouble ||
                  fault(where, "is too small", "")) &&
                 ok;
        else if (strcmp(name, "anyOf") == 0)
            ok = check_any(v, word, doc, where) && ok;
        else if (strcmp(name, "items") == 0)
            ok = check_items(v, word, doc, where) && ok;
        else if (strcmp(name, "properties") == 0)
            ok = check_properties(v, schema, doc, where) && ok;
        else if (strcmp(name, "required") == 0)
            ok = check_required(v, word, where) && ok;
        else if (strcmp(name, "$ref") == 0) {
            cJSON *target = follow_ref(word->valuestring, &to);
            ok = check(v, target, to, where) && ok;
        } else if (!known)
            stop("a keyword that this program does not check", name);
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
    if (doc ? check(v, doc->root, doc, schema->valuestring) : fault(name, "there is no such document", "")) {
        passed++;
    } else {
        failed++;
        printf("  in: %.*s\n", 200, line);
    }
    cJSON_Delete(v);
}

/* report_unseen - each property below SCHEMA that no line had. */
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
        stop("usage: schema FOLDER <LINES", argv[0]);
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
