/* behaviours.c - what the server does, by the first component of the path. */
#include "server.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_LISTED 2000 /* files of a folder of a repository */

/* count_request - as count_up, for the behaviour, its tag and the file of REQUEST. */
static long count_request(const struct request *request)
{
    char key[192];
    snprintf(key, sizeof key, "%s%s/%.60s", request->behaviour, request->tag, request->file);
    return count_up(key);
}

/* other_origin - returns the second origin; a proxy may have given another name for it. */
static const char *other_origin(const struct request *request, char *out, size_t cap)
{
    const char *given = find_header(request, "x-other-origin");
    if (given)
        snprintf(out, cap, "%s", given);
    else
        snprintf(out, cap, "http://127.0.0.1:%d", ports[1]);
    return out;
}

/* redirect - makes REPLY a redirect to BEHAVIOUR at ORIGIN (NULL: the same one). */
static void redirect(const struct request *request, struct reply *reply, const char *origin,
                     const char *behaviour)
{
    reply->status = 302;
    add_header(reply, "Location: %s/%s%s/%s", origin ? origin : "", behaviour, request->tag, request->file);
}

static void behave_fail(struct request *request, struct reply *reply)
{
    if (count_request(request) >= request->numbers[1])
        return;
    reply->status = (int)request->numbers[0];
    if (reply->status == 429)
        add_header(reply, "Retry-After: 1");
}

static void behave_status(struct request *request, struct reply *reply)
{
    reply->status = (int)request->numbers[0];
    if (reply->status == 401)
        add_header(reply, "WWW-Authenticate: Basic realm=\"\033[31mrealm\"");
}

static void behave_endless(struct request *request, struct reply *reply)
{
    behave_status(request, reply);
    reply->flags |= ENDLESS_BODY;
}

static void behave_reset(struct request *request, struct reply *reply)
{
    if (count_request(request) < request->numbers[0])
        reply->flags |= RESET;
}

static void behave_short(struct request *request, struct reply *reply)
{
    if (count_request(request) < request->numbers[0])
        reply->flags |= HALF;
}

/* behave_late - the first replies are good; only later ones have the fault that FLAGS describes. */
static void behave_late(struct request *request, struct reply *reply)
{
    if (count_request(request) < 1)
        reply->flags = 0;
}

static void behave_gzip(struct request *request, struct reply *reply)
{
    const char *accepted = find_header(request, "accept-encoding");
    if (accepted && strstr(accepted, "gzip"))
        reply->flags |= GZIP | NO_RANGES | WEAK;
}

/* behave_redirect - redirects as often as the name has it. */
static void behave_redirect(struct request *request, struct reply *reply)
{
    static const int statuses[] = {302, 301, 303, 307, 308};
    char next[32] = "plain";
    if (request->numbers[0] > 1)
        snprintf(next, sizeof next, "redirect-%ld", request->numbers[0] - 1);
    redirect(request, reply, NULL, next);
    reply->status = statuses[request->numbers[0] % 5];
}

static void behave_redirect_other(struct request *request, struct reply *reply)
{
    char origin[128];
    redirect(request, reply, other_origin(request, origin, sizeof origin), "plain");
}

static void behave_redirect_loop(struct request *request, struct reply *reply)
{
    redirect(request, reply, NULL, "redirect-loop");
}

static void behave_redirect_relative(struct request *request, struct reply *reply)
{
    reply->status = 302;
    add_header(reply, "Location: ../plain%s/./%s", request->tag, request->file);
}

static void behave_redirect_file(struct request *request, struct reply *reply)
{
    reply->status = 302;
    add_header(reply, "Location: file://%s/%s", folder, request->file);
}

static void behave_redirect_ftp(struct request *request, struct reply *reply)
{
    reply->status = 302;
    add_header(reply, "Location: ftp://127.0.0.1:%d/%s", ports[1], request->file);
}

static void behave_redirect_http(struct request *request, struct reply *reply)
{
    char origin[64];
    snprintf(origin, sizeof origin, "http://127.0.0.1:%d", ports[1]);
    redirect(request, reply, origin, "plain");
}

static void behave_redirect_user(struct request *request, struct reply *reply)
{
    char origin[64];
    snprintf(origin, sizeof origin, "http://user:UrlSecret@127.0.0.1:%d", ports[1]);
    redirect(request, reply, origin, "plain");
}

static void behave_redirect_control(struct request *request, struct reply *reply)
{
    reply->status = 302;
    add_header(reply, "Location: http://127.0.0.1:%d/plain/\033[2J%s", ports[1], request->file);
}

static void behave_redirect_nowhere(struct request *request, struct reply *reply)
{
    (void)request;
    reply->status = 302;
}

/* behave_redirect_signed - redirects to a URL of the second origin whose query is a secret. */
static void behave_redirect_signed(struct request *request, struct reply *reply)
{
    char origin[128];
    reply->status = 302;
    add_header(reply, "Location: %s/cdn%s/%s?" SIGNED_QUERY "0", other_origin(request, origin, sizeof origin),
               request->tag, request->file);
}

/* behave_redirect_expiring - as behave_redirect_signed, but the URL works as often as the name has it, and
 * each redirect is to a new one. */
static void behave_redirect_expiring(struct request *request, struct reply *reply)
{
    char origin[128];
    reply->status = 302;
    other_origin(request, origin, sizeof origin);
    add_header(reply, "Location: %s/cdn-expiring-%ld%s/%s?" SIGNED_QUERY "%ld", origin, request->numbers[0],
               request->tag, request->file, count_request(request));
}

/* behave_cdn - serves a file for a signed URL; refuses a second authorization, as object stores do. */
static void behave_cdn(struct request *request, struct reply *reply)
{
    if (find_header(request, "authorization"))
        reply->status = 400;
    else if (strncmp(request->query, SIGNED_QUERY, strlen(SIGNED_QUERY)) != 0)
        reply->status = 403;
}

static void behave_cdn_expiring(struct request *request, struct reply *reply)
{
    char key[256];
    snprintf(key, sizeof key, "%s%s %.100s", request->behaviour, request->tag, request->query);
    behave_cdn(request, reply);
    if (!reply->status && count_up(key) >= request->numbers[0])
        reply->status = 403;
}

static void behave_s3(struct request *request, struct reply *reply)
{
    const char *fault = find_s3_fault(request);
    if (!fault)
        return;
    char xml[160];
    snprintf(xml, sizeof xml, "<?xml version=\"1.0\"?><Error><Code>%s</Code></Error>\n", fault);
    reply->text = strdup(xml);
    reply->status = 403;
}

/* behave_s3_redirect - a bucket that is elsewhere. */
static void behave_s3_redirect(struct request *request, struct reply *reply)
{
    behave_s3(request, reply);
    if (!reply->status)
        behave_redirect_other(request, reply); /* to /plain, which is not signed */
}

/* ---------------------------------------------------------------- the Hub */

/* list_folder - writes the entries of the folder NAME ("": the top) of the repository REPOSITORY to OUT, as
 * the Hub's JSON. */
static void list_folder(const char *repository, const char *name, FILE *out)
{
    char path[MAX_PATH * 4];
    snprintf(path, sizeof path, "%s/%s/%s", folder, repository, name);
    DIR *entries = opendir(path);
    unsigned nlisted = 0;
    for (struct dirent *entry; entries && nlisted < MAX_LISTED && (entry = readdir(entries));) {
        char file[sizeof path + 300];
        struct stat status;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || stat(file, &status) != 0)
            continue;
        fprintf(out, "%s{\"type\":\"%s\",\"oid\":\"%040x\",\"size\":%jd,\"path\":\"%s%s%s\"}",
                nlisted ? "," : "", S_ISDIR(status.st_mode) ? "directory" : "file", nlisted,
                (intmax_t)status.st_size, name, *name ? "/" : "", entry->d_name);
        nlisted++;
    }
    if (entries)
        closedir(entries);
}

/* list_endless - writes the entries of a folder in which there are always folders like it. */
static void list_endless(const char *name, FILE *out)
{
    fprintf(out, "{\"type\":\"file\",\"path\":\"%s%szarr.json\"}", name, *name ? "/" : "");
    for (int i = 0; i < MAX_LISTED; i++)
        fprintf(out, ",{\"type\":\"directory\",\"path\":\"%s%s%d\"}", name, *name ? "/" : "", i);
}

/* reply_tree - replies with the list of files; PATH is that of the request after "api/models/". */
static void reply_tree(struct reply *reply, const char *path)
{
    char repository[MAX_PATH];
    const char *tree = strstr(path, "/tree/");
    size_t len;
    FILE *out = tree ? open_memstream(&reply->text, &len) : NULL;
    reply->status = out ? 200 : 404;
    if (!out)
        return;
    snprintf(repository, sizeof repository, "%.*s", (int)(tree - path), path);
    const char *name = strchr(tree + 6, '/');
    fputc('[', out);
    if (strstr(repository, "/endless"))
        list_endless(name ? name + 1 : "", out);
    else
        list_folder(repository, name ? name + 1 : "", out);
    fputc(']', out);
    fclose(out);
    add_header(reply, "Content-Type: application/json");
}

/* find_revision - returns what follows the revision in PATH, or NULL if there is no such revision. */
static const char *find_revision(const char *path)
{
    static const char *const revisions[] = {"main/", "v1/", HUB_COMMIT "/"};
    for (size_t i = 0; i < sizeof revisions / sizeof *revisions; i++)
        if (strncmp(path, revisions[i], strlen(revisions[i])) == 0)
            return path + strlen(revisions[i]);
    return NULL;
}

/* reply_resolve - replies with a redirect to the second origin, but serves JSON itself, as the Hub does with
 * small files. */
static void reply_resolve(struct request *request, struct reply *reply)
{
    static const char label[] = "/resolve/";
    char *resolve = strstr(request->path + 1, label);
    const char *name = resolve ? find_revision(resolve + strlen(label)) : NULL;
    char file[MAX_PATH], encoded[MAX_PATH * 3], origin[128];
    struct stat status;
    if (!name) {
        reply->status = 404;
        add_header(reply, "X-Error-Code: RevisionNotFound");
        return;
    }
    *resolve = 0;
    snprintf(file, sizeof file, "%s/%s", request->file, name);
    snprintf(request->path, sizeof request->path, "%s", file);
    request->file = request->path;
    int opened = open_file(file, &status);
    if (opened >= 0)
        close(opened);
    reply->status = opened < 0 ? 404 : strstr(name, ".json") ? 0 : 302;
    if (opened < 0)
        add_header(reply, "X-Error-Code: EntryNotFound");
    else
        add_header(reply, "X-Repo-Commit: " HUB_COMMIT "%.0ld",
                   strstr(file, "/moving") ? count_up("moving") : 0);
    encode_path(file, encoded, sizeof encoded);
    if (reply->status == 302)
        add_header(reply, "Location: %s/cdn/%s?" SIGNED_QUERY "0",
                   other_origin(request, origin, sizeof origin), encoded);
}

/* behave_hub - a Hub of models: ORG/REPO/resolve/REVISION/FILE and api/models/ORG/REPO/tree/REVISION. A
 * repository whose name begins with "gated" needs the token, one with "endless" has endless folders, and the
 * commit of one with "moving" is another in each reply. */
static void behave_hub(struct request *request, struct reply *reply)
{
    const char *authorization = find_header(request, "authorization");
    if (strstr(request->file, "/gated") &&
        (!authorization || strcmp(authorization, "Bearer " HUB_TOKEN) != 0)) {
        reply->status = 401;
        add_header(reply, "X-Error-Code: GatedRepo");
        add_header(reply, "X-Error-Message: Access to this repository is restricted");
    } else if (authorization && strcmp(authorization, "Bearer " HUB_TOKEN) != 0)
        reply->status = 401;
    else if (strncmp(request->file, "api/models/", 11) == 0)
        reply_tree(reply, request->file + 11);
    else
        reply_resolve(request, reply);
}

/* --------------------------------------------------------------- the table */

/* clang-format off */
static const struct behaviour {
    const char *name; /* with '#' for a number */
    unsigned flags;
    void (*behave)(struct request *, struct reply *); /* may be NULL */
} behaviours[] = {
    {"plain",                 0,                                NULL},
    {"no-ranges",             NO_RANGES,                        NULL},
    {"no-suffix",             NO_SUFFIX,                        NULL},
    {"weak",                  WEAK,                             NULL},
    {"changing",              NEW_ETAG | IGNORE_IF_MATCH,       NULL},
    {"changing-412",          NEW_ETAG,                         NULL},
    {"changing-total",        NEW_TOTAL,                        behave_late},
    {"changing-date",         NEW_DATE | WEAK,                  NULL},
    {"changing-escapes",      NEW_ETAG | IGNORE_IF_MATCH | ESCAPES, NULL},
    {"gzip",                  0,                                behave_gzip},
    {"always-gzip",           GZIP,                             NULL},
    {"elsewhere",             ELSEWHERE,                        NULL},
    {"elsewhere-late",        ELSEWHERE,                        behave_late},
    {"gzip-late",             GZIP,                             behave_late},
    {"no-ranges-late",        NO_RANGES,                        behave_late},
    {"huge-total",            HUGE_TOTAL,                       NULL},
    {"no-total",              NO_TOTAL,                         NULL},
    {"no-content-range",      NO_CONTENT_RANGE,                 NULL},
    {"multipart",             MULTIPART,                        NULL},
    {"long-body",             LONG_BODY,                        NULL},
    {"empty",                 EMPTY,                            NULL},
    {"empty-late",            EMPTY,                            behave_late},
    {"crumbs",                CRUMBS,                           NULL},
    {"chunked",               CHUNKED,                          NULL},
    {"slow",                  SLOW,                             NULL},
    {"late",                  LATE,                             NULL},
    {"reset",                 RESET,                            NULL},
    {"reset-#",               0,                                behave_reset},
    {"short-#",               0,                                behave_short},
    {"garbage",               GARBAGE,                          NULL},
    {"hang",                  HANG,                             NULL},
    {"hang-late",             HANG,                             behave_late},
    {"endless-headers",       ENDLESS_HEADERS,                  NULL},
    {"endless-#",             0,                                behave_endless},
    {"escapes",               ESCAPES,                          NULL},
    {"fail-#-#",              0,                                behave_fail},
    {"always-#",              0,                                behave_status},
    {"status-#",              0,                                behave_status},
    {"redirect-#",            0,                                behave_redirect},
    {"redirect-other",        0,                                behave_redirect_other},
    {"redirect-loop",         0,                                behave_redirect_loop},
    {"redirect-relative",     0,                                behave_redirect_relative},
    {"redirect-file",         0,                                behave_redirect_file},
    {"redirect-ftp",          0,                                behave_redirect_ftp},
    {"redirect-http",         0,                                behave_redirect_http},
    {"redirect-user",         0,                                behave_redirect_user},
    {"redirect-control",      0,                                behave_redirect_control},
    {"redirect-nowhere",      0,                                behave_redirect_nowhere},
    {"redirect-signed",       0,                                behave_redirect_signed},
    {"redirect-expiring-#",   0,                                behave_redirect_expiring},
    {"cdn",                   0,                                behave_cdn},
    {"cdn-expiring-#",        0,                                behave_cdn_expiring},
    {"hub",                   0,                                behave_hub},
    {"s3-bucket",             0,                                behave_s3},
    {"s3-redirect",           0,                                behave_s3_redirect},
};
/* clang-format on */

/* match - returns true if TEXT is PATTERN, in which a '#' stands for a number, and sets NUMBERS to these. */
static bool match(const char *pattern, const char *text, long numbers[2])
{
    int n = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*text++ != *pattern)
                return false;
            continue;
        }
        char *after;
        if (!isdigit((unsigned char)*text) || n == 2)
            return false;
        numbers[n++] = strtol(text, &after, 10);
        text = after;
    }
    return !*text;
}

void behave(struct request *request, struct reply *reply)
{
    for (size_t i = 0; i < sizeof behaviours / sizeof *behaviours; i++) {
        const struct behaviour *behaviour = &behaviours[i];
        if (!match(behaviour->name, request->behaviour, request->numbers))
            continue;
        reply->flags = behaviour->flags;
        if (behaviour->behave)
            behaviour->behave(request, reply);
        return;
    }
    reply->status = 404;
}
