/*
 * schema.c - schema FOLDER <LINES: validates every line that is a JSON object with a "schema" key against the
 * document in FOLDER that this key names; other lines are skipped. Ends with "schema: N passed, N failed".
 *
 * It implements the keywords of JSON Schema that man/schema uses: type, properties, required, items,
 * additionalProperties, enum, const, minimum, anyOf and $ref. Any other keyword is an error, because it would
 * go unchecked. Stricter than the standard, it fails for a property that the document does not list (but
 * NAME_hex is permitted if NAME is listed), and for a listed property that no line has.
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
static bool quiet; /* print no faults; set while the alternatives of an anyOf are tried */

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

/* find_doc - returns the document NAME, such as "ckpt.ls.v1.json", or NULL if there is none. Reads the file
 * at the first call. */
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
        die("the $ref does not refer to #/$defs/", ref);
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

/* report_fault - prints that the value at WHERE does not match, unless `quiet`; returns false. */
static bool report_fault(const char *where, const char *what, const char *detail)
{
    if (!quiet)
        printf("  %s: %s%s%s\n", where, what, *detail ? " " : "", detail);
    return false;
}

static bool is_type(const cJSON *value, const char *type)
{
    return strcmp(type, "string") == 0 ? cJSON_IsString(value)
           : strcmp(type, "integer") == 0
               ? cJSON_IsNumber(value) && floor(value->valuedouble) == value->valuedouble
           : strcmp(type, "number") == 0  ? cJSON_IsNumber(value)
           : strcmp(type, "boolean") == 0 ? cJSON_IsBool(value)
           : strcmp(type, "array") == 0   ? cJSON_IsArray(value)
           : strcmp(type, "object") == 0  ? cJSON_IsObject(value)
                                          : strcmp(type, "null") == 0 && cJSON_IsNull(value);
}

static bool check_value(const cJSON *value, cJSON *schema, struct doc *doc, const char *where);

static bool check_type(const cJSON *value, const cJSON *type, const char *where)
{
    const cJSON *name;
    if (cJSON_IsString(type))
        return is_type(value, type->valuestring) || report_fault(where, "is not of type", type->valuestring);
    cJSON_ArrayForEach(name, type) if (is_type(value, name->valuestring)) return true;
    return report_fault(where, "is of none of the types", "");
}

static bool check_enum(const cJSON *value, const cJSON *words, const char *where)
{
    const cJSON *allowed;
    cJSON_ArrayForEach(allowed, words) if (cJSON_Compare(value, allowed, true)) return true;
    return report_fault(where, "is none of the enum:", cJSON_IsString(value) ? value->valuestring : "");
}

static bool check_any_of(const cJSON *value, const cJSON *choices, struct doc *doc, const char *where)
{
    cJSON *choice;
    bool was_quiet = quiet;
    cJSON_ArrayForEach(choice, choices)
    {
        quiet = true;
        bool ok = check_value(value, choice, doc, where);
        quiet = was_quiet;
        if (ok)
            return true;
    }
    return report_fault(where, "matches none of anyOf", "");
}

static bool check_items(const cJSON *value, cJSON *schema, struct doc *doc, const char *where)
{
    const cJSON *item;
    char item_where[MAX_PATH];
    bool ok = true;
    int index = 0;
    if (!cJSON_IsArray(value))
        return true;
    cJSON_ArrayForEach(item, value)
    {
        snprintf(item_where, sizeof item_where, "%s[%d]", where, index++);
        ok = check_value(item, schema, doc, item_where) && ok;
    }
    return ok;
}

/* is_hex_twin - returns whether MEMBER is NAME_hex, and NAME is one of PROPERTIES. */
static bool is_hex_twin(const cJSON *member, const cJSON *properties)
{
    size_t n = strlen(member->string);
    char name[128];
    if (n < 5 || n >= sizeof name || strcmp(member->string + n - 4, "_hex") != 0)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(n - 4), member->string);
    return cJSON_IsString(member) && cJSON_GetObjectItemCaseSensitive(properties, name);
}

static bool check_properties(const cJSON *value, cJSON *schema, struct doc *doc, const char *where)
{
    cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    cJSON *additional = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *member;
    char item_where[MAX_PATH];
    bool ok = true;
    if (!cJSON_IsObject(value) || (!properties && !additional))
        return true;
    cJSON_ArrayForEach(member, value)
    {
        cJSON *listed = cJSON_GetObjectItemCaseSensitive(properties, member->string);
        snprintf(item_where, sizeof item_where, "%s.%s", where, member->string);
        if (listed)
            listed->valueint = 1; /* for report_unseen(): a line has this property */
        if (listed || additional)
            ok = check_value(member, listed ? listed : additional, doc, item_where) && ok;
        else if (!is_hex_twin(member, properties))
            ok = report_fault(item_where, "is not listed", "");
    }
    return ok;
}

static bool check_required(const cJSON *value, const cJSON *names, const char *where)
{
    const cJSON *name;
    bool ok = true;
    cJSON_ArrayForEach(name,
                       names) if (cJSON_IsObject(value) && !cJSON_HasObjectItem(value, name->valuestring))
        ok = report_fault(where, "lacks", name->valuestring);
    return ok;
}

/* check_value - validates VALUE against each keyword of SCHEMA. */
static bool check_value(const cJSON *value, cJSON *schema, struct doc *doc, const char *where)
{
    /* these do not restrict VALUE, except additionalProperties, which check_properties() reads */
    static const char *const not_checked_here[] = {"description", "title", "$schema",
                                                   "$id",         "$defs", "additionalProperties"};
    cJSON *word;
    bool ok = true;
    cJSON_ArrayForEach(word, schema)
    {
        const char *name = word->string;
        struct doc *to = doc;
        bool known = false;
        for (size_t i = 0; i < sizeof not_checked_here / sizeof *not_checked_here; i++)
            known = known || strcmp(name, not_checked_here[i]) == 0;
        if (strcmp(name, "type") == 0)
            ok = check_type(value, word, where) && ok;
        else if (strcmp(name, "const") == 0)
            ok = (cJSON_Compare(value, word, true) || report_fault(where, "is not the const", "")) && ok;
        else if (strcmp(name, "enum") == 0)
            ok = check_enum(value, word, where) && ok;
        else if (strcmp(name, "minimum") == 0)
            ok = (!cJSON_IsNumber(value) || value->valuedouble >= word->valuedouble ||
                  report_fault(where, "is too small", "")) &&
                 ok;
        else if (strcmp(name, "anyOf") == 0)
            ok = check_any_of(value, word, doc, where) && ok;
        else if (strcmp(name, "items") == 0)
            ok = check_items(value, word, doc, where) && ok;
        else if (strcmp(name, "properties") == 0)
            ok = check_properties(value, schema, doc, where) && ok;
        else if (strcmp(name, "required") == 0)
            ok = check_required(value, word, where) && ok;
        else if (strcmp(name, "$ref") == 0) {
            cJSON *target = follow_ref(word->valuestring, &to);
            ok = check_value(value, target, to, where) && ok;
        } else if (!known)
            die("is a keyword that this program does not check", name);
    }
    if (!cJSON_HasObjectItem(schema, "properties") && cJSON_HasObjectItem(schema, "additionalProperties"))
        ok = check_properties(value, schema, doc, where) && ok;
    return ok;
}

static void check_line(const char *line)
{
    char name[128];
    cJSON *value = cJSON_Parse(line);
    const cJSON *schema = cJSON_GetObjectItemCaseSensitive(value, "schema");
    if (!cJSON_IsString(schema)) {
        cJSON_Delete(value);
        return;
    }
    snprintf(name, sizeof name, "%s.json", schema->valuestring);
    struct doc *doc = find_doc(name);
    bool ok = doc ? check_value(value, doc->root, doc, schema->valuestring)
                  : report_fault(name, "there is no such document", "");
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("  in: %.*s\n", 200, line);
    }
    cJSON_Delete(value);
}

/* report_unseen - reports each property below SCHEMA that no line had, as check_properties() recorded. */
static void report_unseen(const cJSON *schema, const char *where)
{
    const cJSON *member;
    char item_where[MAX_PATH];
    bool is_properties = schema->string && strcmp(schema->string, "properties") == 0;
    cJSON_ArrayForEach(member, schema)
    {
        snprintf(item_where, sizeof item_where, "%s%s%s", where, member->string ? "." : "",
                 member->string ? member->string : "");
        if (is_properties && !member->valueint) {
            printf("  %s: is in no line\n", item_where);
            failed++;
        }
        if (cJSON_IsObject(member) || cJSON_IsArray(member))
            report_unseen(member, item_where);
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
