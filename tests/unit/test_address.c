/* What the spellings of URLs stand for, where redirects lead, what may be shown. */
#include <stdlib.h>

#include "io/address.h"
#include "unit.h"

/* A setting for each field that decides where requests go. */
static const ckpt_remote none = {.struct_size = sizeof(ckpt_remote)};
static const ckpt_remote mirror = {.struct_size = sizeof(ckpt_remote),
                                   .hub_endpoint = "HTTPS://mirror:8443/hf//",
                                   .hub_token = "hf_secret",
                                   .s3_endpoint = "http://127.0.0.1:9000/",
                                   .s3_key_id = "AKIA",
                                   .s3_secret = "s3_secret"};

/* resolve_is - checks that TYPED stands for EXPECTED, with the CREDENTIALS. */
static bool resolve_is(const char *typed, const ckpt_remote *remote, const char *expected,
                       enum credentials credentials)
{
    ckpt_error err;
    struct address address;
    ckpt_status st = address_resolve(typed, NULL, remote, &address, &err);
    bool same = st == CKPT_OK && strcmp(address.url, expected) == 0 && address.credentials == credentials;
    if (!same)
        fprintf(stderr, "\n%s: %s", typed, st == CKPT_OK ? address.url : err.what);
    address_free(&address);
    return same;
}

/* web_is - checks that the https or http URL TYPED stands for EXPECTED. */
static bool web_is(const char *typed, const char *expected)
{
    return resolve_is(typed, &mirror, expected, CREDENTIALS_NONE);
}

/* hub_is - checks that hf://TYPED stands for https://huggingface.co/EXPECTED. */
static bool hub_is(const char *typed, const char *expected)
{
    char url[512], want[512];
    snprintf(url, sizeof url, "hf://%s", typed);
    snprintf(want, sizeof want, "https://huggingface.co/%s", expected);
    return resolve_is(url, &none, want, CREDENTIALS_NONE);
}

/* s3_is - checks that s3://TYPED stands for EXPECTED at the endpoint of `mirror`. */
static bool s3_is(const char *typed, const char *expected)
{
    char url[512], want[512];
    snprintf(url, sizeof url, "s3://%s", typed);
    snprintf(want, sizeof want, "http://127.0.0.1:9000/%s", expected);
    return resolve_is(url, &mirror, want, CREDENTIALS_S3);
}

/* refused - checks that TYPED is refused for a reason with WHY in it, and that no secret is shown. */
static bool refused(const char *typed, const ckpt_remote *remote, const char *why)
{
    ckpt_error err;
    struct address address;
    ckpt_status st = address_resolve(typed, NULL, remote, &address, &err);
    bool ok = st == CKPT_EUSAGE && !address.url && strstr(err.what, why) && !strstr(err.what, "secret") &&
              !strstr(err.hint, "secret");
    if (!ok)
        fprintf(stderr, "\n%s: %s", typed, st == CKPT_OK ? address.url : err.what);
    address_free(&address);
    return ok;
}

static void only_four_schemes_are_urls(void)
{
    static const char *const urls[] = {"https://h/p", "http://h/p", "hf://o/r", "s3://b/k",
                                       "HTTPS://h/p", "Hf://o/r",   "S3://b/k", "http://"};
    static const char *const others[] = {"",          "https:/h",   "https:",    "file:///p",
                                         "ftp://h/p", "gs://b/k",   "model.pt",  "./hf://o/r",
                                         "hf:/o/r",   "httpss://h", " https://h"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        CU_ASSERT(address_is_url(urls[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CU_ASSERT(!address_is_url(others[i]));
    CU_ASSERT(refused("ftp://h/p", &none, "another scheme"));
}

static void a_web_url_stays_as_it_is_typed(void)
{
    CU_ASSERT(
        web_is("https://h/a/b.safetensors?X-Sig=a%2Fb+c&d", "https://h/a/b.safetensors?X-Sig=a%2Fb+c&d"));
    CU_ASSERT(web_is("http://h:8080/%7Ea/../b", "http://h:8080/%7Ea/../b"));
    CU_ASSERT(web_is("HTTPS://Host.example/A", "https://Host.example/A"));
    CU_ASSERT(web_is("https://[2001:db8::1]:8443/p", "https://[2001:db8::1]:8443/p"));
    CU_ASSERT(web_is("https://h:/p", "https://h/p"));
    CU_ASSERT(web_is("https://h", "https://h/"));
    CU_ASSERT(web_is("https://h?q", "https://h/?q"));
    CU_ASSERT(web_is("https://h/p?q#f?g", "https://h/p?q"));
    CU_ASSERT(web_is("https://h#/p", "https://h/"));
    CU_ASSERT(web_is("https://h/@scope/p@1", "https://h/@scope/p@1"));
    CU_ASSERT(web_is("https://h/a b\t\n\x7f?c d", "https://h/a%20b%09%0A%7F?c%20d"));
    CU_ASSERT(web_is("https://h/\xc3\xa9\xff", "https://h/%C3%A9%FF"));
    CU_ASSERT(
        web_is("https://huggingface.co/o/r/resolve/main/f", "https://huggingface.co/o/r/resolve/main/f"));
}

static void a_hub_url_is_resolved(void)
{
    CU_ASSERT(hub_is("o/r/f.safetensors", "o/r/resolve/main/f.safetensors"));
    CU_ASSERT(hub_is("o-1/r_2.3/d/f", "o-1/r_2.3/resolve/main/d/f"));
    CU_ASSERT(hub_is("datasets/o/r/f", "datasets/o/r/resolve/main/f"));
    CU_ASSERT(hub_is("spaces/o/r@v1/f", "spaces/o/r/resolve/v1/f"));
    CU_ASSERT(hub_is("o/r@v1.0-rc~1/f", "o/r/resolve/v1.0-rc~1/f"));
    CU_ASSERT(hub_is("o/r@refs%2Fpr%2F1/f", "o/r/resolve/refs%2Fpr%2F1/f"));
    CU_ASSERT(hub_is("o/r@refs%2fpr%2f1/f", "o/r/resolve/refs%2Fpr%2F1/f"));
    CU_ASSERT(hub_is("o/r@refs/pr/12/d/f", "o/r/resolve/refs%2Fpr%2F12/d/f"));
    CU_ASSERT(
        hub_is("datasets/o/r@refs/convert/parquet_1/f", "datasets/o/r/resolve/refs%2Fconvert%2Fparquet_1/f"));
    CU_ASSERT(hub_is("o/r@refs/pr/x/f", "o/r/resolve/refs/pr/x/f"));
    CU_ASSERT(hub_is("o/r@refs/prs/1", "o/r/resolve/refs/prs/1"));
    CU_ASSERT(hub_is("o/r@100%/f", "o/r/resolve/100%25/f"));
    CU_ASSERT(hub_is("o/r@a%2/f", "o/r/resolve/a%252/f"));
    CU_ASSERT(hub_is("o/r@a%g0%41/f", "o/r/resolve/a%25g0A/f"));
    CU_ASSERT(hub_is("o/r@a@b/f", "o/r/resolve/a%40b/f"));
    CU_ASSERT(hub_is("o/r/f@2", "o/r/resolve/main/f%402"));
    CU_ASSERT(hub_is("o/r/a b%20?c#d+e=\xc3\xa9", "o/r/resolve/main/a%20b%2520%3Fc%23d%2Be%3D%C3%A9"));
    CU_ASSERT(hub_is("o/r/d/", "o/r/resolve/main/d"));
    CU_ASSERT(
        resolve_is("HF://o/r/f", &mirror, "https://mirror:8443/hf/o/r/resolve/main/f", CREDENTIALS_HUB));
}

static void a_commit_replaces_the_revision(void)
{
    ckpt_error err;
    struct address address;
    CU_ASSERT(address_resolve("hf://o/r@v1/f", "c0ffee", &none, &address, &err) == CKPT_OK &&
              strcmp(address.url, "https://huggingface.co/o/r/resolve/c0ffee/f") == 0);
    address_free(&address);
    CU_ASSERT(address_resolve("https://h/f", "c0ffee", &none, &address, &err) == CKPT_OK &&
              strcmp(address.url, "https://h/f") == 0);
    address_free(&address);
}

static void a_malformed_hub_url_is_refused(void)
{
    CU_ASSERT(refused("hf://", &none, "without an organization"));
    CU_ASSERT(refused("hf://gpt2", &none, "without an organization"));
    CU_ASSERT(refused("hf://datasets/r", &none, "without an organization"));
    CU_ASSERT(refused("hf://o/", &none, "without an organization"));
    CU_ASSERT(refused("hf:///r/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://o/../f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://./r/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://o/r%2e/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://o/r?x/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://user:secret@o/r/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://o/r\xc3\xa9/f", &none, "an invalid name"));
    CU_ASSERT(refused("hf://o/r@/f", &none, "no revision"));
    CU_ASSERT(refused("hf://o/r@../f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r@%2e%2e/f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r@a%2F..%2Fb/f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r@a%00/f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r@a%0D%0A/f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r@%2F/f", &none, "an invalid revision"));
    CU_ASSERT(refused("hf://o/r//f", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r/d//f", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r/../f", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r/d/.", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r/d//", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r/a\nb", &none, "an invalid path"));
    CU_ASSERT(refused("hf://o/r", &none, "a repository"));
    CU_ASSERT(refused("hf://o/r@v1/", &none, "a repository"));
}

/* page_is - checks that the page at TYPED is refused, and the URL hf://MEANT suggested. */
static bool page_is(const char *typed, const char *meant)
{
    ckpt_error err;
    struct address address;
    char hint[256];
    snprintf(hint, sizeof hint, "give the URL hf://%s", meant);
    bool same = address_resolve(typed, NULL, &mirror, &address, &err) == CKPT_EUSAGE && !address.url &&
                strcmp(err.hint, hint) == 0;
    if (!same)
        fprintf(stderr, "\n%s: %s", typed, err.hint);
    address_free(&address);
    return same;
}

static void a_page_of_the_hub_is_no_file(void)
{
    CU_ASSERT(page_is("https://huggingface.co/o/r", "o/r"));
    CU_ASSERT(page_is("https://huggingface.co:443/o/r/?x=secret#y", "o/r"));
    CU_ASSERT(page_is("https://huggingface.co/o/r/blob/main/a%20b.pt?x", "o/r/a b.pt"));
    CU_ASSERT(page_is("https://huggingface.co/o/r/blob/refs%2Fpr%2F1/d/f", "o/r@refs%2Fpr%2F1/d/f"));
    CU_ASSERT(page_is("https://huggingface.co/datasets/o/r/tree/v1/d/", "datasets/o/r@v1/d"));
    CU_ASSERT(page_is("https://mirror:8443/hf/o/r/blob/main/f", "o/r/f"));
    CU_ASSERT(
        web_is("https://huggingface.co/o/r/resolve/main/f", "https://huggingface.co/o/r/resolve/main/f"));
    CU_ASSERT(web_is("https://huggingface.co/o", "https://huggingface.co/o"));
    CU_ASSERT(web_is("https://huggingface.co", "https://huggingface.co/"));
    CU_ASSERT(web_is("https://mirror:8443/o/r", "https://mirror:8443/o/r"));
    CU_ASSERT(web_is("https://h/o/r/blob/main/f", "https://h/o/r/blob/main/f"));
}

/* tree_is - checks that hf://TYPED is listed, at COMMIT, by the request
 * https://huggingface.co/api/EXPECTED. */
static bool tree_is(const char *typed, const char *commit, const char *expected)
{
    ckpt_error err;
    char url[512], want[512], *made;
    snprintf(url, sizeof url, "hf://%s", typed);
    snprintf(want, sizeof want, "https://huggingface.co/api/%s?recursive=false", expected);
    ckpt_status st = address_tree(url, commit, &none, &made, &err);
    bool same = st == CKPT_OK && strcmp(made, want) == 0;
    free(made);
    return same;
}

static void a_folder_of_the_hub_is_listed(void)
{
    ckpt_error err;
    char *url;
    CU_ASSERT(tree_is("o/r", NULL, "models/o/r/tree/main"));
    CU_ASSERT(tree_is("o/r/", NULL, "models/o/r/tree/main"));
    CU_ASSERT(tree_is("o/r@refs/pr/1", NULL, "models/o/r/tree/refs%2Fpr%2F1"));
    CU_ASSERT(tree_is("o/r@v1/a b/c/", NULL, "models/o/r/tree/v1/a%20b/c"));
    CU_ASSERT(tree_is("datasets/o/r/d", NULL, "datasets/o/r/tree/main/d"));
    CU_ASSERT(tree_is("spaces/o/r", NULL, "spaces/o/r/tree/main"));
    CU_ASSERT(tree_is("spaces/o/r", "", "spaces/o/r/tree/main"));
    CU_ASSERT(tree_is("o/r@v1/d", "c0ffee", "models/o/r/tree/c0ffee/d"));
    CU_ASSERT(address_tree("hf://o/r", NULL, &mirror, &url, &err) == CKPT_OK &&
              strcmp(url, "https://mirror:8443/hf/api/models/o/r/tree/main?recursive=false") == 0);
    free(url);
    CU_ASSERT(address_tree("https://h/p/", NULL, &none, &url, &err) == CKPT_OK && !url);
    CU_ASSERT(address_tree("hf://o", NULL, &none, &url, &err) == CKPT_EUSAGE && !url);
    CU_ASSERT(address_tree("hf://o/r@..", NULL, &none, &url, &err) == CKPT_EUSAGE && !url);
}

static void what_can_be_no_file_is_a_folder(void)
{
    static const char *const folders[] = {
        "hf://o/r",      "hf://o/r/", "hf://o/r@v/1/", "HF://datasets/o/r@refs/pr/1",
        "hf://o/r/d/",   "s3://b/d/", "https://h/d/",  "https://h/d/?q",
        "https://h/d/#f"};
    static const char *const files[] = {"hf://o/r/f", "hf://o/r@v/f", "s3://b/k",      "https://h/f",
                                        "https://h",  "hf://gpt2",    "https://h/f?d/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        CU_ASSERT(address_is_folder(folders[i]));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        CU_ASSERT(!address_is_folder(files[i]));
}

static void an_s3_url_is_resolved(void)
{
    ckpt_remote remote = none;
    CU_ASSERT(s3_is("b/k", "b/k"));
    CU_ASSERT(s3_is("b.c-d_e/a=1/b+c d%20\xc3\xa9", "b.c-d_e/a%3D1/b%2Bc%20d%2520%C3%A9"));
    CU_ASSERT(s3_is("b/a?b#c&d:e@f~g!*'()", "b/a%3Fb%23c%26d%3Ae%40f~g%21%2A%27%28%29"));
    CU_ASSERT(s3_is("b//k/", "b//k/"));
    CU_ASSERT(resolve_is("S3://b/k", &none, "https://s3.us-east-1.amazonaws.com/b/k", CREDENTIALS_NONE));
    remote.s3_region = "eu-west-3";
    remote.s3_endpoint = "";
    CU_ASSERT(resolve_is("s3://b/k", &remote, "https://s3.eu-west-3.amazonaws.com/b/k", CREDENTIALS_NONE));
    remote.s3_region = "evil.example/";
    CU_ASSERT(refused("s3://b/k", &remote, "malformed AWS_REGION"));
}

static void a_malformed_s3_url_is_refused(void)
{
    ckpt_remote remote = none;
    CU_ASSERT(refused("s3://", &none, "no bucket"));
    CU_ASSERT(refused("s3:///k", &none, "no bucket"));
    CU_ASSERT(refused("s3://b", &none, "no key"));
    CU_ASSERT(refused("s3://b/", &none, "no key"));
    CU_ASSERT(refused("s3://id:secret@b/k", &none, "an invalid name of a bucket"));
    CU_ASSERT(refused("s3://../k", &none, "an invalid name of a bucket"));
    CU_ASSERT(refused("s3://b?/k", &none, "an invalid name of a bucket"));
    CU_ASSERT(refused("s3://b/a/../k", &none, "a key with '.' or '..'"));
    CU_ASSERT(refused("s3://b/.", &none, "a key with '.' or '..'"));
    CU_ASSERT(refused("s3://b/a\rb", &none, "a control character"));
    remote.s3_key_id = "AKIA";
    CU_ASSERT(refused("s3://b/k", &remote, "only one of AWS_ACCESS_KEY_ID"));
    remote.s3_key_id = "";
    remote.s3_secret = "secret";
    CU_ASSERT(refused("s3://b/k", &remote, "only one of AWS_ACCESS_KEY_ID"));
}

/* A host that two parsers may read differently is refused. */
static void a_malformed_host_is_refused(void)
{
    static const char *const bad[] = {"https://h\\@evil/p", "https://h\\p",
                                      "https://h h/p",      "https://h%2f/p",
                                      "https://h\x01/p",    "https://\xc3\xa9/p",
                                      "https://[::1/p",     "https://[]/p",
                                      "https://[::1]x/p",   "https://[fe80::1%25eth0]/p",
                                      "https://h,evil/p",   "https://[g::h]x:1/p"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(refused(bad[i], &none, strchr(bad[i], '@') ? "a user or password" : "a malformed host"));
    CU_ASSERT(refused("https://", &none, "no host"));
    CU_ASSERT(refused("https:///p", &none, "no host"));
    CU_ASSERT(refused("https://:80/p", &none, "no host"));
    CU_ASSERT(refused("https://h:80x/p", &none, "a malformed port"));
    CU_ASSERT(refused("https://h:65536/p", &none, "a malformed port"));
    CU_ASSERT(refused("https://h:-1/p", &none, "a malformed port"));
    CU_ASSERT(refused("https://h:1:2/p", &none, "a malformed port"));
}

static void a_password_in_a_url_is_refused_and_not_shown(void)
{
    ckpt_error err;
    struct address address;
    CU_ASSERT(refused("https://user:secret@h/p", &none, "a user or password"));
    CU_ASSERT(refused("https://user@h/p", &none, "a user or password"));
    CU_ASSERT(refused("https://@h/p", &none, "a user or password"));
    CU_ASSERT(refused("https://user:secret@other@h/p", &none, "a user or password"));
    CU_ASSERT(refused("https://user:sec/secret@h/p", &none, "a malformed port"));
    CU_ASSERT(address_resolve("https://user:secret@h/p", NULL, &none, &address, &err) == CKPT_EUSAGE &&
              strstr(err.hint, "--netrc") && !strstr(err.hint, "secret"));
}

static void a_malformed_setting_is_refused(void)
{
    ckpt_remote remote = none;
    static const char *const bad[][2] = {{"huggingface.co", "no URL"},
                                         {"hf://o", "no URL"},
                                         {"https://", "no host"},
                                         {"https://u:secret@h", "a user or password"},
                                         {"https://h?secret", "a query or fragment"},
                                         {"https://h/#secret", "a query or fragment"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        remote.hub_endpoint = remote.s3_endpoint = bad[i][0];
        CU_ASSERT(refused("hf://o/r/f", &remote, bad[i][1]) && refused("hf://o/r/f", &remote, "HF_ENDPOINT"));
        CU_ASSERT(refused("s3://b/k", &remote, bad[i][1]) &&
                  refused("s3://b/k", &remote, "AWS_ENDPOINT_URL"));
    }
}

/* long_text - returns BEGINNING and N times FILL; the caller frees it. */
static char *long_text(const char *beginning, size_t n, char fill)
{
    size_t first = strlen(beginning);
    char *text = malloc(first + n + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    memcpy(text, beginning, first);
    memset(text + first, fill, n);
    text[first + n] = '\0';
    return text;
}

static void the_length_of_a_url_is_limited(void)
{
    ckpt_error err;
    char *out, *fits = long_text("https://h/", 8181, 'a'), *longer = long_text("https://h/", 8183, 'a'),
               *grows = long_text("https://h/", 3000, ' '), *location = long_text("/", 8192, 'a');
    CU_ASSERT(resolve_is(fits, &none, fits, CREDENTIALS_NONE));
    CU_ASSERT(refused(longer, &none, "8193 bytes"));
    CU_ASSERT(refused(grows, &none, "too long"));
    CU_ASSERT(url_follow("https://h/p", str_c(location), &out, &err) == CKPT_EIO && !out &&
              strstr(err.what, "8193 bytes"));
    location[8191] = '\0';
    CU_ASSERT(url_follow("https://h/p", str_c(location), &out, &err) == CKPT_EIO && !out &&
              strstr(err.what, "too long"));
    CU_ASSERT(url_follow("https://h/p/", str_c(location + 1), &out, &err) == CKPT_EIO && !out);
    CU_ASSERT(url_join(str_c(fits), STR_LIT("f"), &out, &err) == CKPT_EUSAGE && !out);
    free(fits);
    free(longer);
    free(grows);
    free(location);
}

/* follow_is - checks that LOCATION in a reply of URL leads to EXPECTED. */
static bool follow_is(const char *url, const char *location, const char *expected)
{
    ckpt_error err;
    char *out;
    bool same = url_follow(url, str_c(location), &out, &err) == CKPT_OK && strcmp(out, expected) == 0;
    if (!same)
        fprintf(stderr, "\n%s: %s", location, out ? out : err.what);
    free(out);
    return same;
}

/* The examples of RFC 3986, 5.4, that are https, and the forms that servers use. */
static void a_redirect_is_followed(void)
{
    static const char base[] = "https://a:8443/b/c/d;p?q";
    static const char *const pairs[][2] = {{"https://x/y?z", "https://x/y?z"},
                                           {"https://x", "https://x/"},
                                           {"https://x?z", "https://x/?z"},
                                           {"HTTPS://x/", "https://x/"},
                                           {"//g", "https://g/"},
                                           {"//g:1/x?y#z", "https://g:1/x?y"},
                                           {"/g", "https://a:8443/g"},
                                           {"g", "https://a:8443/b/c/g"},
                                           {"./g", "https://a:8443/b/c/g"},
                                           {"g/", "https://a:8443/b/c/g/"},
                                           {"?y", "https://a:8443/b/c/d;p?y"},
                                           {"g?y", "https://a:8443/b/c/g?y"},
                                           {"g?y/./x", "https://a:8443/b/c/g?y/./x"},
                                           {"#s", "https://a:8443/b/c/d;p?q"},
                                           {"g#s", "https://a:8443/b/c/g"},
                                           {"", "https://a:8443/b/c/d;p?q"},
                                           {".", "https://a:8443/b/c/"},
                                           {"./", "https://a:8443/b/c/"},
                                           {"..", "https://a:8443/b/"},
                                           {"../", "https://a:8443/b/"},
                                           {"../g", "https://a:8443/b/g"},
                                           {"../..", "https://a:8443/"},
                                           {"../../g", "https://a:8443/g"},
                                           {"../../../g", "https://a:8443/g"},
                                           {"/./g", "https://a:8443/g"},
                                           {"/../g", "https://a:8443/g"},
                                           {"g.", "https://a:8443/b/c/g."},
                                           {"..g", "https://a:8443/b/c/..g"},
                                           {"./g/.", "https://a:8443/b/c/g/"},
                                           {"g/../h", "https://a:8443/b/c/h"},
                                           {"g;x=1/../y", "https://a:8443/b/c/y"},
                                           {"/a//../b", "https://a:8443/a/b"},
                                           {"1:2", NULL},
                                           {" /a b\xc3\xa9 \t", "https://a:8443/a%20b%C3%A9"},
                                           {"/a:b", "https://a:8443/a:b"},
                                           {"/r?u=http://x@y/", "https://a:8443/r?u=http://x@y/"},
                                           {"/\\evil/p", "https://a:8443/\\evil/p"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CU_ASSERT(follow_is(base, pairs[i][0], pairs[i][1] ? pairs[i][1] : "https://a:8443/b/c/1:2"));
    CU_ASSERT(follow_is("https://a", "g", "https://a/g"));
    CU_ASSERT(follow_is("https://a?q", "?r", "https://a/?r"));
    CU_ASSERT(follow_is("http://a/b", "http://c/d", "http://c/d"));
    CU_ASSERT(follow_is("http://a/b", "https://c/d", "https://c/d"));
    CU_ASSERT(follow_is("http://a/b", "//c/d", "http://c/d"));
}

/* follow_refused - checks that LOCATION in a reply of URL is refused for a reason with WHY in it. */
static bool follow_refused(const char *url, ckpt_str location, const char *why)
{
    ckpt_error err;
    char *out;
    bool ok = url_follow(url, location, &out, &err) == CKPT_EIO && !out && strstr(err.what, why) &&
              !strstr(err.what, "secret");
    if (!ok)
        fprintf(stderr, "\n%.*s: %s", (int)location.len, location.ptr, out ? out : err.what);
    free(out);
    return ok;
}

static void a_hostile_redirect_is_refused(void)
{
    static const char *const bad[][2] = {{"http://a/secret", "http:"},
                                         {"file:///etc/secret", "file:"},
                                         {"FTP://h/secret", "FTP:"},
                                         {"javascript:secret", "javascript:"},
                                         {"hf://o/secret", "hf:"},
                                         {"https:/evil/secret", "https:"},
                                         {"https:secret", "https:"},
                                         {"https:\\\\evil", "https:"},
                                         {"a:b", "a:"},
                                         {"https://u:secret@h/", "a user or password"},
                                         {"//u:secret@h/p", "a user or password"},
                                         {"https://h\\@secret/", "a user or password"},
                                         {"https://", "no host"},
                                         {"//", "no host"},
                                         {"///p", "no host"},
                                         {"//h%00/", "a malformed host"},
                                         {"//\xff/", "a malformed host"},
                                         {"//h:99999999999999999999/", "a malformed port"},
                                         {"/a\r\nX-Secret: secret", "control characters"},
                                         {"/a\x7f", "control characters"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(follow_refused("https://a/b", str_c(bad[i][0]), bad[i][1]));
    CU_ASSERT(follow_refused("https://a/b", str_of("/a\0b", 4), "control characters"));
    CU_ASSERT(follow_refused("http://a/b", str_c("file:///etc/secret"), "file:"));
}

/* A Location need not end in NUL. */
static void a_location_is_read_within_its_bounds(void)
{
    static const char *const texts[] = {"https://h", "https:/", "//[::1", "?", "..", "a:", "/%", " ", "//h:"};
    ckpt_error err;
    char *out;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t n = strlen(texts[i]);
        unsigned char *at = unit_guard(texts[i], n);
        (void)url_follow("https://a/b", str_of((const char *)at, n), &out, &err);
        free(out);
        unit_guard_free(at, n);
    }
}

static void origins_are_compared(void)
{
    CU_ASSERT(url_has_same_origin("https://h/a?b", "https://h/c"));
    CU_ASSERT(url_has_same_origin("https://H.Example:443/", "HTTPS://h.example"));
    CU_ASSERT(url_has_same_origin("http://h:80/", "http://h/"));
    CU_ASSERT(url_has_same_origin("https://h:0443/", "https://h:/"));
    CU_ASSERT(!url_has_same_origin("https://h/", "http://h/"));
    CU_ASSERT(!url_has_same_origin("https://h:80/", "http://h:80/"));
    CU_ASSERT(!url_has_same_origin("https://h/", "https://h:8443/"));
    CU_ASSERT(!url_has_same_origin("https://h/", "https://h.evil/"));
    CU_ASSERT(!url_has_same_origin("https://hub/", "https://hug/"));
    CU_ASSERT(!url_has_same_origin("https://h@evil/", "https://h@evil/"));
    CU_ASSERT(!url_has_same_origin("https://h/", "https://h:x/"));
    CU_ASSERT(!url_has_same_origin("hf://o/r", "hf://o/r"));
    CU_ASSERT(!url_has_same_origin("", ""));
}

static void no_secret_is_shown(void)
{
    static const char *const pairs[][2] = {{"https://h/p?X-Amz-Signature=secret", "https://h/p"},
                                           {"https://h?secret", "https://h"},
                                           {"https://h/p#secret?x", "https://h/p"},
                                           {"https://user:secret@h:1/p?q", "h:1/p"},
                                           {"https://secret@h/p", "h/p"},
                                           {"https://a@secret@h/@p", "h/@p"},
                                           {"https://user:sec/secret@h/p?q", "h/p"},
                                           {"https://user:sec?secret@h/p", "h/p"},
                                           {"https://user:sec#secret@h/p", "h/p"},
                                           {"hf://o/r@v/f?token=secret", "hf://o/r@v/f"},
                                           {"hf://user:secret@o/r", "o/r"},
                                           {"hf://o/r/a#b", "hf://o/r/a#b"},
                                           {"s3://id:secret@b/k", "b/k"},
                                           {"https://[::1]/a@b", "https://[::1]/a@b"},
                                           {"https://h:80/a@b", "https://h:80/a@b"},
                                           {"file?name", "file?name"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CU_ASSERT(str_is(url_show(pairs[i][0]), pairs[i][1]));
}

/* join_is - checks that NAME in FOLDER is EXPECTED. */
static bool join_is(const char *folder, const char *name, const char *expected)
{
    ckpt_error err;
    char *out;
    bool same = url_join(str_c(folder), str_c(name), &out, &err) == CKPT_OK && strcmp(out, expected) == 0;
    free(out);
    return same;
}

static void a_file_of_the_same_folder_is_named(void)
{
    static const char *const bad[] = {"",    "/", "/f", "f/", "../f", "a/../f", ".", "a//b", "https://evil/f",
                                      "a\nb"};
    ckpt_error err;
    char *out;
    CU_ASSERT(join_is("https://h/a/", "f 1?#%.bin", "https://h/a/f%201%3F%23%25.bin"));
    CU_ASSERT(join_is("https://h", "f", "https://h/f"));
    CU_ASSERT(join_is("https://h/", "d/f", "https://h/d/f"));
    CU_ASSERT(join_is("hf://o/r@v/a/", "f ?", "hf://o/r@v/a/f ?"));
    CU_ASSERT(join_is("s3://b/a#b/", "f", "s3://b/a#b/f"));
    CU_ASSERT(join_is("hf://o/r", "f", "hf://o/r/f"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CU_ASSERT(url_join(STR_LIT("https://h/a/"), str_c(bad[i]), &out, &err) == CKPT_EFORMAT && !out);
}

void suite_address(void)
{
    UNIT(only_four_schemes_are_urls);
    UNIT(a_web_url_stays_as_it_is_typed);
    UNIT(a_hub_url_is_resolved);
    UNIT(a_commit_replaces_the_revision);
    UNIT(a_malformed_hub_url_is_refused);
    UNIT(a_page_of_the_hub_is_no_file);
    UNIT(a_folder_of_the_hub_is_listed);
    UNIT(what_can_be_no_file_is_a_folder);
    UNIT(an_s3_url_is_resolved);
    UNIT(a_malformed_s3_url_is_refused);
    UNIT(a_malformed_host_is_refused);
    UNIT(a_password_in_a_url_is_refused_and_not_shown);
    UNIT(a_malformed_setting_is_refused);
    UNIT(the_length_of_a_url_is_limited);
    UNIT(a_redirect_is_followed);
    UNIT(a_hostile_redirect_is_refused);
    UNIT(a_location_is_read_within_its_bounds);
    UNIT(origins_are_compared);
    UNIT(no_secret_is_shown);
    UNIT(a_file_of_the_same_folder_is_named);
}
