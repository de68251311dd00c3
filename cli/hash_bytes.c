/* hash_bytes.c - digests of files as they are, and torch.hub's names.
 *
 * torch.hub.load_state_dict_from_url(check_hash=True) searches the file's name for
 * -([a-f0-9]*)\\. and requires that the SHA-256 of the file begins with the first match; eight digits
 * are usual (torch/hub.py, HASH_REGEX). */
#include "hash_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "json.h"
#include "progress.h"

#define SHA256_BYTES 32
#define HUB_DIGITS   8

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* find_name_digits - returns the *N digits that torch.hub would find in the name of PATH, or NULL. */
static const char *find_name_digits(const char *path, size_t *n)
{
    for (const char *at = strchr(base_name(path), '-'); at; at = strchr(at + 1, '-')) {
        *n = strspn(at + 1, "0123456789abcdef");
        if (at[1 + *n] == '.')
            return *n ? at + 1 : NULL;
    }
    return NULL;
}

/* sha256_of - adds the digest of F's payload to HEX or, if F is NULL, the digest of the file PATH. Returns
 * EXIT_OK, or EXIT_TROUBLE after printing the error. */
static int sha256_of(const char *path, ckpt_file *f, struct text *hex)
{
    uint8_t out[CKPT_DIGEST_MAX];
    ckpt_error err;
    ckpt_work how = {.struct_size = sizeof how, .threads = 1, .progress = progress_step};
    progress_begin("hashing");
    ckpt_status st = f ? ckpt_digest_payload(f, CKPT_SHA256, &how, out, &err)
                       : ckpt_digest_bytes(path, CKPT_SHA256, &how, out, &err);
    progress_end();
    if (st != CKPT_OK)
        return report_error(&err, path);
    text_hex(hex, out, SHA256_BYTES);
    return EXIT_OK;
}

/* add_sha256sum_line - adds a line as sha256sum prints it: a backslash or line break in the name is escaped,
 * and the line begins with a backslash. Control characters are escaped on a terminal. */
static void add_sha256sum_line(struct text *to, const char *hex, const char *path)
{
    struct text name = {0};
    for (const char *p = path; *p; p++) {
        if (*p == '\\' || *p == '\n' || *p == '\r')
            text_addf(&name, "\\%c", *p == '\n' ? 'n' : *p == '\r' ? 'r' : '\\');
        else
            text_byte(&name, *p);
    }
    bool shows = !ui.tty || text_is_printable(name.ptr);
    text_addf(to, "%s%s  ", shows && strlen(path) != name.len ? "\\" : "", hex);
    if (shows)
        text_add(to, name.ptr);
    else
        text_name(to, str_of(path));
    text_free(&name);
}

/* digest_json - returns the JSON document of PATH; OF names what HEX is the digest of. */
static json *digest_json(const char *path, const char *of, const char *hex)
{
    json *j = json_schema("ckpt.hash.v1");
    json_text(j, "file", path);
    json_text(j, "algorithm", "sha256");
    json_text(j, "of", of);
    json_text(j, "digest", hex);
    return j;
}

/* print_digest - prints "HEX NAME" or its JSON. */
static void print_digest(const char *path, const char *of, const char *hex)
{
    if (ui.json) {
        json_line(digest_json(path, of, hex), stdout);
        return;
    }
    struct text line = {0};
    if (strcmp(of, "file") == 0) {
        add_sha256sum_line(&line, hex, path);
    } else {
        text_addf(&line, "%s  ", hex);
        text_name(&line, str_of(path));
    }
    printf("%s\n", line.ptr);
    text_free(&line);
}

static int hash_and_print(const char *path, ckpt_file *f)
{
    struct text hex = {0};
    int status = sha256_of(path, f, &hex);
    if (status == EXIT_OK)
        print_digest(path, f ? "payload" : "file", hex.ptr);
    text_free(&hex);
    return status;
}

int hash_of_file(const char *path) { return hash_and_print(path, NULL); }

int hash_of_payload(const char *path)
{
    ckpt_file *f = open_input(path, false);
    int status = f ? hash_and_print(path, f) : EXIT_TROUBLE;
    close_input(f);
    return status;
}

/* add_hub_name - adds PATH with the first digits of HEX in its name: in place of the digits that the name
 * has, if these are enough, or before the last dot. */
static void add_hub_name(struct text *to, const char *path, const char *hex)
{
    size_t n;
    const char *old = find_name_digits(path, &n), *dot = strrchr(base_name(path), '.');
    const char *end = old && n >= HUB_DIGITS ? old - 1 : dot ? dot : path + strlen(path);
    text_bytes(to, path, (size_t)(end - path));
    text_add(to, "-");
    text_bytes(to, hex, HUB_DIGITS);
    text_add(to, old && n >= HUB_DIGITS ? old + n : end);
}

int hash_in_name(const char *path)
{
    struct text hex = {0}, name = {0}, shown = {0};
    size_t n;
    int status = sha256_of(path, NULL, &hex);
    if (status == EXIT_OK) {
        add_hub_name(&name, path, hex.ptr);
        const char *found = find_name_digits(name.ptr, &n);
        if (!found || n != HUB_DIGITS || memcmp(found, hex.ptr, n) != 0)
            status = report_failure(CKPT_EUSAGE, path, "name it like net.pth first",
                                    "torch.hub would not find the digest in a name made from this one");
    }
    if (status == EXIT_OK && ui.json) {
        json *j = digest_json(path, "file", hex.ptr);
        json_text(j, "hub_name", name.ptr);
        json_line(j, stdout);
    } else if (status == EXIT_OK) {
        text_name(&shown, str_of(name.ptr));
        printf("%s\n", shown.ptr);
    }
    text_free(&shown);
    text_free(&name);
    text_free(&hex);
    return status;
}

int hash_check_name(const char *path)
{
    struct text hex = {0}, shown = {0};
    size_t n = 0;
    const char *digits = find_name_digits(path, &n);
    if (!digits)
        return report_failure(CKPT_EUSAGE, path, "ckpt hash --hub-name prints a name that has them",
                              "the name has no digits of a digest, as net-0676ba61.pth has");
    int status = sha256_of(path, NULL, &hex);
    if (status == EXIT_TROUBLE)
        return status;
    bool same = n <= hex.len && memcmp(digits, hex.ptr, n) == 0;
    if (ui.json) {
        json *j = digest_json(path, "file", hex.ptr);
        json_str(j, "name_digits", (ckpt_str){digits, n});
        json_bool(j, "matches", same);
        json_line(j, stdout);
    } else if (!same || !ui.quiet) {
        text_name(&shown, str_of(path));
        if (same)
            printf("%s: matches its name\n", shown.ptr);
        else
            printf("%s: the file's SHA-256 begins with %.*s\n", shown.ptr, (int)(n < hex.len ? n : hex.len),
                   hex.ptr);
        text_free(&shown);
    }
    text_free(&hex);
    return same ? EXIT_OK : EXIT_NO;
}
