#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define TOKEN_MAX 4096u /* bytes of a token */

struct remote_options remote_options;

static ckpt_remote remote = CKPT_INIT(ckpt_remote);

/* Operands that were cut. */
static struct {
    struct {
        const char *operand; /* is compared as a pointer: two URLs may differ only in their queries */
        char *typed;
    } *items;
    size_t n;
} cut_operands;

/* --------------------------------------------------------------- operands */

static bool has_scheme(const char *path, const char *scheme)
{
    return strncasecmp(path, scheme, strlen(scheme)) == 0;
}

bool remote_is_url(const char *path)
{
    return has_scheme(path, "https://") || has_scheme(path, "http://") || has_scheme(path, "hf://") ||
           has_scheme(path, "s3://");
}

const char *remote_find_host(const char *path, const char **meant)
{
    static const struct {
        const char *typed, *meant;
    } schemes[] = {
        {"hf:", "hf://"},       {"huggingface:", "hf://"}, {"huggingface.co/", "https://huggingface.co/"},
        {"https:", "https://"}, {"http:", "http://"},      {"s3:", "s3://"},
        {"s3a:", "s3://"}};
    const char *other = strstr(path, "://");
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i].typed);
        *meant = schemes[i].meant;
        if (has_scheme(path, schemes[i].typed))
            return path + n + strspn(path + n, "/");
    }
    *meant = NULL;
    return other && !memchr(path, '=', (size_t)(other - path)) ? other + 3 : NULL; /* meta: KEY=VALUE */
}

bool remote_may_exist(const char *path) { return remote_is_url(path) || access(path, F_OK) == 0; }

int remote_fail_output(const char *path)
{
    return usage_error(ui.cmd->name, "cannot write to a server: '%s'", escape_name(str_c(path)));
}

const char *remote_typed(const char *path)
{
    for (size_t i = 0; i < cut_operands.n; i++)
        if (cut_operands.items[i].operand == path && remote_is_url(path)) /* else it is not read */
            return cut_operands.items[i].typed;
    return path;
}

bool remote_is_without_query(const char *path)
{
    for (size_t i = 0; i < cut_operands.n; i++)
        if (strcmp(cut_operands.items[i].operand, path) == 0 && strchr(cut_operands.items[i].typed, '?'))
            return true;
    return false;
}

/* has_port - returns true if the text after the last ':' of the NBYTES bytes at HOST, if there is one, is the
 * number of a port. Otherwise it may be a password with '/' or '?' in it. */
static bool has_port(const char *host, size_t nbytes)
{
    size_t digits = 0;
    while (digits < nbytes && host[nbytes - digits - 1] >= '0' && host[nbytes - digits - 1] <= '9')
        digits++;
    return digits == nbytes || host[nbytes - digits - 1] == ':' || host[nbytes - 1] == ']' ||
           !memchr(host, ':', nbytes);
}

/* find_user_end - returns what follows the user and password at HOST in a URL, or NULL if it has none. */
static char *find_user_end(char *host)
{
    char *at = NULL;
    size_t n = strcspn(host, "/?#");
    bool is_sound = has_port(host, n);
    for (char *c = host; is_sound ? c < host + n : *c != '\0'; c++)
        if (*c == '@')
            at = c + 1;
    return at;
}

/* cut_url - removes what may be secret from URL, whose HOST follows its scheme. */
static void cut_url(char *url, char *host)
{
    char *after = find_user_end(host);
    bool is_web = has_scheme(url, "http");
    size_t length = strlen(url);
    if (after)
        memmove(host, after, strlen(after) + 1);
    size_t shown = strcspn(url, is_web ? "?#" : "?");
    memset(url + shown, 0, length - shown);
}

static void cut_operand(char *operand, char *host)
{
    struct text typed = {0};
    text_add(&typed, operand);
    cut_url(operand, host);
    if (strcmp(typed.ptr, operand) == 0) {
        text_free(&typed);
        return;
    }
    cut_operands.items = mem_make_room(cut_operands.items, cut_operands.n, sizeof *cut_operands.items);
    cut_operands.items[cut_operands.n].operand = operand;
    cut_operands.items[cut_operands.n++].typed = typed.ptr;
}

/* ------------------------------------------------------------ environment */

/* get_setting - returns the variable NAME of the environment; NULL: it is not set, or empty. */
static const char *get_setting(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

/* is_true - returns true if the variable NAME is one that huggingface_hub takes for true. */
static bool is_true(const char *name)
{
    static const char *const words[] = {"1", "ON", "YES", "TRUE"};
    const char *text = getenv(name);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* check_secret - returns EXIT_OK if TEXT, which may be NULL, can be in a header: it must be printable ASCII.
 * SOURCE is the variable or file that it is from. */
static int check_secret(const char *text, const char *source)
{
    for (; text && *text; text++)
        if (*text <= ' ' || *text > '~')
            return report_failure(CKPT_EUSAGE, NULL, NULL,
                                  "%s has a blank, a control character or one that is not ASCII",
                                  escape_name(str_c(source)));
    return EXIT_OK;
}

/* trim - returns TEXT without white space at its ends; NULL: nothing is left. */
static char *trim(char *text)
{
    static const char space[] = " \t\r\n\v\f";
    size_t n;
    text += strspn(text, space);
    for (n = strlen(text); n && strchr(space, text[n - 1]); n--)
        ;
    text[n] = '\0';
    return n ? text : NULL;
}

/* add_home - adds PATH to OUT; "~/" at its beginning is the user's home. */
static void add_home(struct text *out, const char *path)
{
    const char *home = getenv("HOME");
    bool in_home = strncmp(path, "~/", 2) == 0;
    if (in_home)
        text_add(out, home ? home : "");
    text_add(out, in_home ? path + 1 : path);
}

/* find_token_file - sets OUT to the path of the file in which huggingface_hub keeps the token. */
static void find_token_file(struct text *out)
{
    const char *file = get_setting("HF_TOKEN_PATH"), *home = get_setting("HF_HOME"),
               *cache = get_setting("XDG_CACHE_HOME");
    add_home(out, file ? file : home ? home : cache ? cache : "~/.cache");
    if (!file)
        text_add(out, home ? "/token" : "/huggingface/token");
}

/* read_token - reads the file PATH to TOKEN; an empty text if there is no such file. */
static int read_token(const char *path, char token[TOKEN_MAX + 1])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* fopen() and others would be found at each start */
    ssize_t count = fd < 0 ? -1 : read(fd, token, TOKEN_MAX + 1);
    int reason = count < 0 ? errno : 0;
    size_t n = count < 0 ? 0 : (size_t)count;
    if (fd >= 0)
        (void)close(fd);
    token[n <= TOKEN_MAX ? n : 0] = '\0';
    if (reason && reason != ENOENT && reason != ENOTDIR)
        return report_failure(CKPT_EIO, path, NULL, "cannot read the token of the Hub: %s", strerror(reason));
    if (n > TOKEN_MAX || strlen(token) < n)
        return report_failure(CKPT_EUSAGE, path, NULL, "no token of the Hub");
    return EXIT_OK;
}

static char token[TOKEN_MAX + 1];

/* set_token - sets the Hub's token, in the order of huggingface_hub. */
static int set_token(void)
{
    static struct text source;
    const char *given = getenv("HF_TOKEN");
    int status = EXIT_OK;
    if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return EXIT_OK;
    text_clear(&source);
    if (given && given[strspn(given, " \t\r\n\v\f")]) {
        text_add(&source, "HF_TOKEN");
        if (snprintf(token, sizeof token, "%s", given) > (int)TOKEN_MAX)
            return report_failure(CKPT_EUSAGE, NULL, NULL, "HF_TOKEN is no token of the Hub");
    } else {
        find_token_file(&source);
        status = read_token(source.ptr, token);
    }
    remote.hub_token = status == EXIT_OK ? trim(token) : NULL;
    remote.hub_token_from = source.ptr;
    return status == EXIT_OK ? check_secret(remote.hub_token, source.ptr) : status;
}

/* set_from - sets *FIELD to the variable NAME, or else OTHER, if it can be in a header. */
static int set_from(const char **field, const char *name, const char *other)
{
    bool is_other = other && !get_setting(name);
    *field = get_setting(is_other ? other : name);
    return check_secret(*field, is_other ? other : name);
}

static int set_object_store(void)
{
    int status = set_from(&remote.s3_key_id, "AWS_ACCESS_KEY_ID", NULL);
    if (status == EXIT_OK)
        status = set_from(&remote.s3_secret, "AWS_SECRET_ACCESS_KEY", NULL);
    if (status == EXIT_OK)
        status = set_from(&remote.s3_session, "AWS_SESSION_TOKEN", NULL);
    if (status == EXIT_OK)
        status = set_from(&remote.s3_region, "AWS_REGION", "AWS_DEFAULT_REGION");
    if (status == EXIT_OK)
        status = set_from(&remote.s3_endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    return status;
}

void remote_cut(int count, char **words)
{
    const char *meant;
    for (int i = 0; i < count; i++) {
        const char *host = remote_find_host(words[i], &meant);
        if (host && (remote_is_url(words[i]) || access(words[i], F_OK) != 0))
            cut_operand(words[i], words[i] + (host - words[i]));
    }
}

int remote_begin(int count, char **operand)
{
    bool uses_hub = false, uses_s3 = false;
    const char *offline = get_setting("CKPT_OFFLINE");
    int status = EXIT_OK;
    remote.netrc = remote_options.netrc;
    remote.offline = remote_options.offline || (offline && strcmp(offline, "0") != 0);
    remote.ca_file = remote_options.ca_file;
    ui.limits.remote = &remote;
    for (int i = 0; i < count; i++) {
        if (!remote_is_url(operand[i]))
            continue;
        uses_hub = uses_hub || has_scheme(operand[i], "hf://");
        uses_s3 = uses_s3 || has_scheme(operand[i], "s3://");
    }
    if (uses_hub && is_true("HF_HUB_OFFLINE"))
        remote.offline = true;
    remote.hub_endpoint = get_setting("HF_ENDPOINT"); /* its pages are recognized, too */
    if (uses_hub && !remote.offline)
        status = set_token();
    if (uses_s3 && status == EXIT_OK)
        status = set_object_store();
    return status;
}

void remote_forget(void)
{
    for (size_t i = 0; i < cut_operands.n; i++)
        explicit_bzero(cut_operands.items[i].typed, strlen(cut_operands.items[i].typed));
    explicit_bzero(token, sizeof token);
    remote = (ckpt_remote)CKPT_INIT(ckpt_remote); /* it points to the environment, too */
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "TMPDIR=", 7) != 0 && strncmp(*variable, "TZ=", 3) != 0)
            explicit_bzero(*variable, strlen(*variable));
}
