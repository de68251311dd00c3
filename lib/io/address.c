/* address.c - see address.h.

   TYPED                                     STANDS FOR
   https://HOST[:PORT]/PATH?QUERY            itself; blanks, control characters and bytes >= 80h are encoded
   hf://[KIND/]ORG/REPO[@REVISION]/PATH      ENDPOINT/[KIND/]ORG/REPO/resolve/REVISION/PATH
   hf://[KIND/]ORG/REPO[@REVISION][/PATH]    a folder: ENDPOINT/api/KIND/ORG/REPO/tree/REVISION/PATH lists it
   s3://BUCKET/KEY                           ENDPOINT/BUCKET/KEY

   KIND is "datasets" or "spaces"; models have none, but "models" in the API. REVISION is a branch, tag or
   commit, "main" if it is missing. A '/' in it is typed as %2F, except in refs/pr/N and refs/convert/NAME,
   which huggingface_hub's HfFileSystem takes, too. PATH and KEY are literal text: '%', '?' and '#' are
   characters as others, and what RFC 3986 does not call unreserved is percent-encoded.

   A URL has one meaning only: libcurl parses it again, and must find the same host. So a host consists of
   letters, digits and "-._", or is an IPv6 address in brackets; a port is a number; there is no user.

   RFC 3986 (3.2 authority, 5.2 and 5.3 relative references), huggingface_hub's hf_file_system.py,
   the Hub's OpenAPI description (tree), AWS's "Virtual hosting of buckets" (path style). */
#include "io/address.h"

#include <stdlib.h>

#include "base/buf.h"

#define HUB "https://huggingface.co"

/* A URL taken apart. Texts are slices of it; empty if they are missing. */
struct url {
    ckpt_str scheme;    /* with "://" */
    ckpt_str authority; /* host and port, with a user if there is one */
    ckpt_str path;      /* begins with '/' or is empty */
    ckpt_str query;     /* with '?' */
};

/* is_set - returns true if the setting TEXT is there. */
static bool is_set(const char *text) { return text && *text; }

static bool is_control(char character) { return (unsigned char)character < 0x20 || character == 0x7f; }

static bool has_control(ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (is_control(text.ptr[i]))
            return true;
    return false;
}

/* consists_of - returns true if TEXT is not empty and has only letters and digits of ASCII and those of
 * OTHERS. */
static bool consists_of(ckpt_str text, const char *others)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_ascii_alnum(text.ptr[i]) && (!text.ptr[i] || !strchr(others, text.ptr[i])))
            return false;
    return text.len != 0;
}

/* is_dots - returns true if SEGMENT of a path would be removed from it. */
static bool is_dots(ckpt_str segment) { return str_is(segment, ".") || str_is(segment, ".."); }

static char lower(char character)
{
    return character >= 'A' && character <= 'Z' ? (char)(character - 'A' + 'a') : character;
}

static bool eq_any_case(ckpt_str left, ckpt_str right)
{
    for (size_t i = 0; i < left.len && left.len == right.len; i++)
        if (lower(left.ptr[i]) != lower(right.ptr[i]))
            return false;
    return left.len == right.len;
}

/* has_scheme - returns true if TEXT begins with SCHEME, in any case. */
static bool has_scheme(ckpt_str text, ckpt_str scheme)
{
    return eq_any_case(str_first(text, scheme.len), scheme);
}

static bool is_web(ckpt_str text)
{
    return has_scheme(text, STR_LIT("https://")) || has_scheme(text, STR_LIT("http://"));
}

static bool is_hub(ckpt_str text) { return has_scheme(text, STR_LIT("hf://")); }

static bool is_s3(ckpt_str text) { return has_scheme(text, STR_LIT("s3://")); }

/* take_while_not - removes the text before the first of CHARACTERS, or else all, from *TEXT. Returns it. */
static ckpt_str take_while_not(ckpt_str *text, const char *characters)
{
    size_t n = 0;
    while (n < text->len && (!text->ptr[n] || !strchr(characters, text->ptr[n])))
        n++;
    ckpt_str taken = str_first(*text, n);
    *text = str_skip(*text, n);
    return taken;
}

/* url_split - takes TEXT apart, which has a scheme with "://". */
static struct url url_split(ckpt_str text)
{
    struct url url;
    url.scheme = str_first(text, str_before(text, ':').len + 3);
    text = str_skip(text, url.scheme.len);
    url.authority = take_while_not(&text, "/?#");
    url.path = take_while_not(&text, "?#");
    url.query = str_before(text, '#');
    return url;
}

/* is_host - returns true if HOST is a name, or an address in brackets. */
static bool is_host(ckpt_str host)
{
    if (!str_starts(host, STR_LIT("[")))
        return consists_of(host, "-._");
    return host.len >= 4 && str_ends(host, STR_LIT("]")) &&
           consists_of(str_first(str_skip(host, 1), host.len - 2), ":.");
}

/* split_authority - sets *HOST and *PORT (empty: the scheme's) to those of AUTHORITY. Returns what is wrong
 * with it, or NULL. */
static const char *split_authority(ckpt_str authority, ckpt_str *host, ckpt_str *port)
{
    uint64_t number;
    size_t bracket = str_starts(authority, STR_LIT("[")) ? str_before(authority, ']').len : 0;
    *host = str_first(authority, bracket + str_before(str_skip(authority, bracket), ':').len);
    *port = str_skip(authority, host->len + 1);
    if (str_has(authority, STR_LIT("@")))
        return "a user or password";
    if (!host->len)
        return "no host";
    if (!is_host(*host))
        return "a malformed host";
    if (port->len && (!str_uint(*port, &number) || number > 65535))
        return "a malformed port";
    return NULL;
}

/* put_byte_encoded - appends CHARACTER as a percent sign and two digits. */
static void put_byte_encoded(buf *out, char character)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char byte = (unsigned char)character;
    buf_byte(out, '%');
    buf_byte(out, (unsigned char)digits[byte >> 4]);
    buf_byte(out, (unsigned char)digits[byte & 15]);
}

/* put_literal - appends TEXT, all percent-encoded that is not unreserved; '/' stays if KEEPS_SLASHES. */
static void put_literal(buf *out, ckpt_str text, bool keeps_slashes)
{
    for (size_t i = 0; i < text.len; i++)
        if (consists_of(str_of(text.ptr + i, 1), keeps_slashes ? "-._~/" : "-._~"))
            buf_byte(out, (unsigned char)text.ptr[i]);
        else
            put_byte_encoded(out, text.ptr[i]);
}

/* put_typed - appends TEXT, in which characters may be percent-encoded, and encodes those that no URL has. */
static void put_typed(buf *out, ckpt_str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (is_control(text.ptr[i]) || text.ptr[i] == ' ' || (unsigned char)text.ptr[i] >= 0x80)
            put_byte_encoded(out, text.ptr[i]);
        else
            buf_byte(out, (unsigned char)text.ptr[i]);
}

/* put_origin - appends the scheme in lower case, the host and the port of URL. Returns what is wrong with
 * them, or NULL. */
static const char *put_origin(buf *out, const struct url *url)
{
    ckpt_str host, port;
    const char *fault = split_authority(url->authority, &host, &port);
    if (fault)
        return fault;
    for (size_t i = 0; i < url->scheme.len; i++)
        buf_byte(out, (unsigned char)lower(url->scheme.ptr[i]));
    buf_put_str(out, host);
    if (port.len)
        BUF_PUT_TEXTS(out, STR_LIT(":"), port);
    return NULL;
}

/* take_url - moves the text of MADE to *URL, or frees it and returns STATUS or, if it did not fit, the reason
 * of that: TOO_LONG or CKPT_ENOMEM. */
static ckpt_status take_url(buf *made, ckpt_status status, ckpt_status too_long, char **url, ckpt_error *err)
{
    buf_byte(made, '\0');
    *url = NULL;
    if (status == CKPT_OK && made->no_memory)
        status = fail_memory(err);
    else if (status == CKPT_OK && !buf_ok(made))
        status = fail(err, too_long, CKPT_NO_OFFSET, "the URL is too long, expected {=at most %d bytes}",
                      URL_MAX);
    if (status == CKPT_OK)
        *url = (char *)made->data;
    else
        buf_free(made);
    return status;
}

/* fail_malformed - fails for FAULT, of split_authority(), in WHAT: "URL" or the name of a setting. */
static ckpt_status fail_malformed(const char *what, const char *fault, ckpt_error *err)
{
    if (strcmp(fault, "a user or password") == 0)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "%s with {%s}, which other users of this machine can see\n"
                    "remove it, and use --netrc, which reads names and passwords from ~/.netrc",
                    what, fault);
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "malformed %s: {%s}, expected {=https://HOST[:PORT]/PATH}",
                what, fault);
}

/* put_web - appends the http or https URL TYPED. */
static ckpt_status put_web(buf *out, ckpt_str typed, ckpt_error *err)
{
    struct url url = url_split(typed);
    const char *fault = put_origin(out, &url);
    if (fault)
        return fail_malformed("URL", fault, err);
    if (!url.path.len)
        buf_byte(out, '/');
    put_typed(out, url.path);
    put_typed(out, url.query);
    return CKPT_OK;
}

/* put_endpoint - appends TYPED, the setting NAME, without '/' at its end. */
static ckpt_status put_endpoint(buf *out, const char *typed, const char *name, ckpt_error *err)
{
    struct url url;
    const char *fault;
    if (!is_web(str_c(typed)))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "malformed %s: {no URL}, expected {=https://HOST[:PORT]}", name);
    url = url_split(str_c(typed));
    fault = put_origin(out, &url);
    if (!fault && (url.query.len || str_has(str_c(typed), STR_LIT("#"))))
        fault = "a query or fragment";
    if (fault)
        return fail_malformed(name, fault, err);
    put_typed(out, str_trim_end(url.path, "/"));
    return CKPT_OK;
}

/* --------------------------------------------------------------- the Hub */

/* What a hf:// URL names. */
struct hub_path {
    ckpt_str kind; /* "datasets", "spaces" or "" */
    ckpt_str owner, repo;
    ckpt_str revision; /* as it is typed, or "main" */
    ckpt_str path;     /* empty: the repository; without '/' at the end */
};

static ckpt_status fail_hub(const char *fault, ckpt_error *err)
{
    return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                "malformed hf:// URL: {%s}, expected {=hf://[datasets/]ORG/REPO[@REVISION][/PATH]}", fault);
}

/* count_after - returns the length of PREFIX and what follows it in TEXT up to the next '/', if that consists
 * of letters, digits and "_", or of digits only with IS_NUMBER; else 0. */
static size_t count_after(ckpt_str text, ckpt_str prefix, bool is_number)
{
    uint64_t number;
    ckpt_str name = str_before(str_skip(text, prefix.len), '/');
    if (!str_starts(text, prefix) || (is_number ? !str_uint(name, &number) : !consists_of(name, "_")))
        return 0;
    return prefix.len + name.len;
}

/* take_revision - removes the revision that TEXT begins with and returns it. */
static ckpt_str take_revision(ckpt_str *text)
{
    size_t n = count_after(*text, STR_LIT("refs/pr/"), true);
    n = n ? n : count_after(*text, STR_LIT("refs/convert/"), false);
    n = n ? n : str_before(*text, '/').len;
    ckpt_str revision = str_first(*text, n);
    *text = str_skip(*text, n);
    return revision;
}

/* has_clean_components - returns true if no component of PATH is empty, "." or "..", and it has no control
 * characters. PATH may be empty. */
static bool has_clean_components(ckpt_str path)
{
    bool clean = !has_control(path) && !str_ends(path, STR_LIT("/"));
    while (clean && path.len) {
        ckpt_str component = str_take_until(&path, '/');
        clean = component.len && !is_dots(component);
    }
    return clean;
}

static bool is_repo_name(ckpt_str name) { return consists_of(name, "-._") && !is_dots(name); }

/* hub_split - takes the hf:// URL TYPED apart. COMMIT, if it is not NULL or empty, replaces the revision. */
static ckpt_status hub_split(ckpt_str typed, const char *commit, struct hub_path *out, ckpt_error *err)
{
    ckpt_str text = str_skip(typed, strlen("hf://"));
    *out = (struct hub_path){.revision = STR_LIT("main")};
    if (str_starts(text, STR_LIT("datasets/")) || str_starts(text, STR_LIT("spaces/")))
        out->kind = str_take_until(&text, '/');
    out->owner = str_take_until(&text, '/');
    out->repo = take_while_not(&text, "@/");
    if (str_starts(text, STR_LIT("@"))) {
        text = str_skip(text, 1);
        out->revision = take_revision(&text);
    }
    text = str_skip(text, 1); /* the '/' after it */
    out->path = str_ends(text, STR_LIT("/")) ? str_first(text, text.len - 1) : text;
    if (!out->repo.len)
        return fail_hub("a repository without an organization", err);
    if (!is_repo_name(out->owner) || !is_repo_name(out->repo))
        return fail_hub("an invalid name", err);
    if (!out->revision.len)
        return fail_hub("no revision after '@'", err);
    if (is_set(commit))
        out->revision = str_c(commit);
    return has_clean_components(out->path) ? CKPT_OK : fail_hub("an invalid path", err);
}

/* put_decoded - appends TYPED, with %XX as the byte XX. */
static void put_decoded(buf *out, ckpt_str typed)
{
    for (size_t i = 0; i < typed.len; i++) {
        unsigned high = i + 2 < typed.len ? str_digit(typed.ptr[i + 1]) : 99;
        unsigned low = high < 16 ? str_digit(typed.ptr[i + 2]) : 99;
        bool is_encoded = typed.ptr[i] == '%' && low < 16;
        buf_byte(out, is_encoded ? (unsigned char)(16 * high + low) : (unsigned char)typed.ptr[i]);
        i += is_encoded ? 2 : 0;
    }
}

/* put_revision - appends the revision TYPED. False: it is no name of one. */
static bool put_revision(buf *out, ckpt_str typed)
{
    buf decoded;
    buf_init(&decoded, typed.len);
    put_decoded(&decoded, typed);
    bool clean = has_clean_components(buf_view(&decoded)) && buf_ok(&decoded);
    put_literal(out, buf_view(&decoded), false);
    buf_free(&decoded);
    return clean;
}

/* put_hub - appends ENDPOINT BEFORE [KIND/]ORG/REPO MIDDLE REVISION [/PATH]. BEFORE is "/" or "/api/". */
static ckpt_status put_hub(buf *out, const struct hub_path *path, const ckpt_remote *remote,
                           const char *before, const char *middle, ckpt_error *err)
{
    const char *endpoint = is_set(remote->hub_endpoint) ? remote->hub_endpoint : HUB;
    CKPT_TRY(put_endpoint(out, endpoint, "address of the Hub (HF_ENDPOINT)", err));
    BUF_PUT_TEXTS(out, str_c(before), path->kind, path->kind.len ? STR_LIT("/") : STR_LIT(""), path->owner,
                  STR_LIT("/"), path->repo, str_c(middle));
    if (!put_revision(out, path->revision))
        return fail_hub("an invalid revision", err);
    if (path->path.len)
        buf_byte(out, '/');
    put_literal(out, path->path, true);
    return CKPT_OK;
}

static ckpt_status put_hub_file(buf *out, ckpt_str typed, const char *commit, const ckpt_remote *remote,
                                ckpt_error *err)
{
    struct hub_path path;
    CKPT_TRY(hub_split(typed, commit, &path, err));
    if (!path.path.len)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "the URL of {a repository}, expected {=that of a file}: hf://ORG/REPO/FILE");
    return put_hub(out, &path, remote, "/", "/resolve/", err);
}

ckpt_status address_tree(const char *typed, const char *commit, const ckpt_remote *remote, char **url,
                         ckpt_error *err)
{
    struct hub_path path;
    buf made;
    ckpt_status st;
    *url = NULL;
    if (!is_hub(str_c(typed)))
        return CKPT_OK;
    CKPT_TRY(hub_split(str_c(typed), commit, &path, err));
    if (!path.kind.len)
        path.kind = STR_LIT("models");
    buf_init(&made, URL_MAX);
    st = put_hub(&made, &path, remote, "/api/", "/tree/", err);
    buf_put_cstr(&made, "?recursive=false");
    return take_url(&made, st, CKPT_EUSAGE, url, err);
}

/* ----------------------------------------------------- pages of the Hub */

/* skip_endpoint - returns what follows the address of the Hub ENDPOINT and '/' in TYPED; empty: it is of
 * another server. */
static ckpt_str skip_endpoint(const char *typed, const char *endpoint)
{
    ckpt_str path = url_split(str_c(typed)).path, prefix = STR_LIT("");
    if (!is_set(endpoint) || !is_web(str_c(endpoint)) || !url_has_same_origin(typed, endpoint))
        return STR_LIT("");
    prefix = str_trim_end(url_split(str_c(endpoint)).path, "/");
    return str_take(&path, prefix) && str_take(&path, STR_LIT("/")) ? path : STR_LIT("");
}

/* page_split - sets *OUT to what the page of the Hub at PATH shows: ORG/REPO, or ORG/REPO/blob/REVISION/PATH,
 * or with "tree". Returns false if there is no page at PATH. */
static bool page_split(ckpt_str path, struct hub_path *out)
{
    *out = (struct hub_path){.revision = STR_LIT("main")};
    if (str_starts(path, STR_LIT("datasets/")) || str_starts(path, STR_LIT("spaces/")))
        out->kind = str_take_until(&path, '/');
    out->owner = str_take_until(&path, '/');
    out->repo = str_take_until(&path, '/');
    ckpt_str page = str_take_until(&path, '/');
    if (page.len)
        out->revision = str_take_until(&path, '/');
    out->path = str_trim_end(path, "/");
    return is_repo_name(out->owner) && is_repo_name(out->repo) && out->revision.len &&
           (!page.len || str_is(page, "blob") || str_is(page, "tree"));
}

/* check_page - fails if the web URL TYPED is a page of the Hub about a file or repository, which is none. */
static ckpt_status check_page(const char *typed, const ckpt_remote *remote, ckpt_error *err)
{
    struct hub_path page;
    ckpt_str path = skip_endpoint(typed, HUB);
    buf url;
    if (!page_split(path.len ? path : skip_endpoint(typed, remote->hub_endpoint), &page))
        return CKPT_OK;
    buf_init(&url, URL_MAX);
    BUF_PUT_TEXTS(&url, STR_LIT("hf://"), page.kind, page.kind.len ? STR_LIT("/") : STR_LIT(""), page.owner,
                  STR_LIT("/"), page.repo);
    if (!str_is(page.revision, "main"))
        BUF_PUT_TEXTS(&url, STR_LIT("@"), page.revision);
    if (page.path.len)
        buf_byte(&url, '/');
    put_decoded(&url, page.path);
    (void)fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "{a page of the Hub}, expected {=a file or a repository}");
    if (!has_control(buf_view(&url)))
        error_add_hint(err, "give the URL %.*s", STR_ARG(buf_view(&url)));
    buf_free(&url);
    return CKPT_EUSAGE;
}

/* ---------------------------------------------------------- object stores */

static ckpt_status put_s3_endpoint(buf *out, const ckpt_remote *remote, ckpt_error *err)
{
    const char *region = is_set(remote->s3_region) ? remote->s3_region : "us-east-1";
    if (is_set(remote->s3_endpoint))
        return put_endpoint(out, remote->s3_endpoint, "address of the object store (AWS_ENDPOINT_URL)", err);
    if (!consists_of(str_c(region), "-"))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "malformed AWS_REGION, expected {=letters, digits and '-'} as in us-east-1");
    BUF_PUT_TEXTS(out, STR_LIT("https://s3."), str_c(region), STR_LIT(".amazonaws.com"));
    return CKPT_OK;
}

/* find_s3_fault - returns what is wrong with BUCKET or KEY, or NULL. No segment of a key may be dots: libcurl
 * removes them, and another object would be read. */
static const char *find_s3_fault(ckpt_str bucket, ckpt_str key)
{
    if (!bucket.len)
        return "no bucket";
    if (!is_repo_name(bucket))
        return "an invalid name of a bucket";
    if (!key.len)
        return "no key";
    if (has_control(key))
        return "a control character in the key";
    while (key.len)
        if (is_dots(str_take_until(&key, '/')))
            return "a key with '.' or '..'";
    return NULL;
}

/* put_s3 - appends the request for the s3:// URL TYPED. */
static ckpt_status put_s3(buf *out, ckpt_str typed, const ckpt_remote *remote, ckpt_error *err)
{
    ckpt_str key = str_skip(typed, strlen("s3://")), bucket = str_take_until(&key, '/');
    const char *fault = find_s3_fault(bucket, key);
    if (fault)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "malformed s3:// URL: {%s}, expected {=s3://BUCKET/KEY}", fault);
    if (!is_set(remote->s3_key_id) != !is_set(remote->s3_secret))
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET,
                    "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set\nset both or neither");
    CKPT_TRY(put_s3_endpoint(out, remote, err));
    BUF_PUT_TEXTS(out, STR_LIT("/"), bucket, STR_LIT("/"));
    put_literal(out, key, true);
    return CKPT_OK;
}

/* ------------------------------------------------------------ what is typed */

bool address_is_url(const char *path)
{
    ckpt_str text = str_c(path);
    return is_web(text) || is_hub(text) || is_s3(text);
}

bool address_is_folder(const char *typed)
{
    struct hub_path path;
    ckpt_error ignored;
    ckpt_str text = str_c(typed);
    if (is_hub(text) && hub_split(text, NULL, &path, &ignored) == CKPT_OK && !path.path.len)
        return true;
    return str_ends(is_web(text) ? url_split(text).path : text, STR_LIT("/"));
}

ckpt_status address_resolve(const char *typed, const char *commit, const ckpt_remote *remote,
                            struct address *out, ckpt_error *err)
{
    ckpt_str text = str_c(typed);
    ckpt_status st;
    buf made;
    *out = (struct address){.credentials = CREDENTIALS_NONE};
    if (text.len > URL_MAX)
        return fail(err, CKPT_EUSAGE, CKPT_NO_OFFSET, "a URL of {%zu bytes}, expected {=at most %d}",
                    text.len, URL_MAX);
    buf_init(&made, URL_MAX);
    if (is_hub(text)) {
        st = put_hub_file(&made, text, commit, remote, err);
        out->credentials = is_set(remote->hub_token) ? CREDENTIALS_HUB : CREDENTIALS_NONE;
    } else if (is_s3(text)) {
        st = put_s3(&made, text, remote, err);
        out->credentials = is_set(remote->s3_key_id) ? CREDENTIALS_S3 : CREDENTIALS_NONE;
    } else {
        st = is_web(text) ? put_web(&made, text, err) : fail_malformed("URL", "another scheme", err);
        CKPT_THEN(st, check_page(typed, remote, err));
    }
    return take_url(&made, st, CKPT_EUSAGE, &out->url, err);
}

void address_free(struct address *address)
{
    free(address->url);
    free(address->shown);
    address->url = address->shown = NULL;
}

/* ------------------------------------------------------------- redirects */

/* port_of - returns the number of PORT, or that which SCHEME has. */
static uint64_t port_of(ckpt_str port, ckpt_str scheme)
{
    uint64_t number;
    if (str_uint(port, &number))
        return number;
    return eq_any_case(scheme, STR_LIT("https://")) ? 443 : 80;
}

bool url_has_same_origin(const char *left, const char *right)
{
    struct url a = url_split(str_c(left)), b = url_split(str_c(right));
    ckpt_str host_a, host_b, port_a, port_b;
    return is_web(str_c(left)) && eq_any_case(a.scheme, b.scheme) &&
           !split_authority(a.authority, &host_a, &port_a) &&
           !split_authority(b.authority, &host_b, &port_b) && eq_any_case(host_a, host_b) &&
           port_of(port_a, a.scheme) == port_of(port_b, b.scheme);
}

/* put_without_dots - appends PATH, which begins with '/' or is empty, without "." and ".." segments (RFC
 * 3986, 5.2.4), and encodes what no URL has. */
static void put_without_dots(buf *out, ckpt_str path)
{
    size_t start = out->len;
    while (path.len) {
        ckpt_str segment = str_before(str_skip(path, 1), '/');
        path = str_skip(path, 1 + segment.len);
        if (!is_dots(segment)) {
            buf_byte(out, '/');
            put_typed(out, segment);
            continue;
        }
        while (segment.len == 2 && out->len > start && out->data[--out->len] != '/')
            ;
        if (!path.len)
            buf_byte(out, '/');
    }
}

/* scheme_length - returns the length of the scheme that LOCATION begins with, without ':'; 0: it is a
 * relative reference. */
static size_t scheme_length(ckpt_str location)
{
    ckpt_str scheme = str_before(location, ':');
    bool is_scheme = scheme.len < location.len && str_digit(*location.ptr) > 9 && consists_of(scheme, "+-.");
    return is_scheme ? scheme.len : 0;
}

/* check_redirect - returns CKPT_OK if LOCATION, the target of a redirect from a URL with the scheme FROM, may
 * be followed as far as its scheme is concerned. */
static ckpt_status check_redirect(ckpt_str from, ckpt_str location, ckpt_error *err)
{
    ckpt_str scheme = str_first(location, scheme_length(location));
    bool from_http = eq_any_case(from, STR_LIT("http://"));
    if (has_control(location))
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "redirect to a URL with {control characters}");
    if (!scheme.len || has_scheme(location, STR_LIT("https://")) ||
        (from_http && has_scheme(location, STR_LIT("http://"))))
        return CKPT_OK;
    return fail(err, CKPT_EIO, CKPT_NO_OFFSET,
                "redirect to {%.*s:}, which is not followed, expected {=https://}", STR_ARG(scheme));
}

/* resolve_reference - sets *TO to the URL that LOCATION means in a reply of BASE (RFC 3986, 5.2.2). PATH has
 * room for the path. */
static void resolve_reference(const struct url *base, ckpt_str location, buf *path, struct url *to)
{
    struct url target = *base;
    if (scheme_length(location)) {
        target = url_split(location);
    } else if (str_starts(location, STR_LIT("//"))) {
        location = str_skip(location, 2);
        target.authority = take_while_not(&location, "/?#");
        target.path = take_while_not(&location, "?#");
        target.query = str_before(location, '#');
    } else {
        ckpt_str reference = take_while_not(&location, "?#");
        if (reference.len || str_starts(location, STR_LIT("?")))
            target.query = str_before(location, '#');
        if (reference.len && *reference.ptr != '/')
            buf_put_str(path, base->path.len ? str_folder(base->path) : STR_LIT("/"));
        if (reference.len) {
            buf_put_str(path, reference);
            target.path = buf_view(path);
        }
    }
    *to = target;
}

ckpt_status url_follow(const char *url, ckpt_str location, char **out, ckpt_error *err)
{
    struct url base = url_split(str_c(url)), target;
    buf made, path;
    const char *fault;
    *out = NULL;
    location = str_trim_end(str_trim_start(location, " \t"), " \t");
    if (location.len > URL_MAX)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "redirect to a URL of {%zu bytes}, expected {=at most %d}",
                    location.len, URL_MAX);
    CKPT_TRY(check_redirect(base.scheme, location, err));
    buf_init(&made, URL_MAX);
    buf_init(&path, URL_MAX);
    resolve_reference(&base, location, &path, &target);
    fault = put_origin(&made, &target);
    put_without_dots(&made, target.path.len ? target.path : STR_LIT("/"));
    put_typed(&made, target.query);
    made.failed = made.failed || path.failed;
    made.no_memory = made.no_memory || path.no_memory;
    buf_free(&path);
    return take_url(
        &made, fault ? fail(err, CKPT_EIO, CKPT_NO_OFFSET, "redirect to a URL with {%s}", fault) : CKPT_OK,
        CKPT_EIO, out, err);
}

/* ---------------------------------------------------------- pieces of URLs */

/* has_bad_port - returns true if a port of AUTHORITY is no number: it may be a password with '/' or '?'. */
static bool has_bad_port(ckpt_str authority)
{
    uint64_t number;
    ckpt_str port = str_after_last(authority, ':');
    return port.len && port.len < authority.len && !str_ends(port, STR_LIT("]")) && !str_uint(port, &number);
}

ckpt_str url_show(const char *url)
{
    ckpt_str all = str_c(url);
    if (!address_is_url(url))
        return all;
    struct url split = url_split(all);
    if (has_bad_port(split.authority) && str_has(all, STR_LIT("@")))
        all = str_after_last(all, '@');
    else if (str_has(split.authority, STR_LIT("@")))
        all = str_skip(all,
                       split.scheme.len + split.authority.len - str_after_last(split.authority, '@').len);
    all = str_before(all, '?');
    return is_web(str_c(url)) ? str_before(all, '#') : all;
}

ckpt_status url_join(ckpt_str folder, ckpt_str name, char **out, ckpt_error *err)
{
    buf made;
    *out = NULL;
    if (!name.len || !has_clean_components(name))
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "{\"%.*s\"} is no path of a file in the folder",
                    STR_ARG(name));
    buf_init(&made, URL_MAX);
    buf_put_str(&made, folder);
    if (!str_ends(folder, STR_LIT("/")))
        buf_byte(&made, '/');
    if (is_web(folder))
        put_literal(&made, name, true);
    else
        buf_put_str(&made, name);
    return take_url(&made, CKPT_OK, CKPT_EUSAGE, out, err);
}
