/* http.c - see http.h. The only file that includes libcurl's header.
 *
 * Requests are GETs of one range each: signed URLs refuse HEAD. Redirects are followed here and not by
 * libcurl, which sends headers such as x-amz-security-token on to other servers. If-Match makes a server
 * refuse (412) a file that changed; If-Range would make it send all of the new file. */
#include "io/http.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/str.h"

#ifndef HAVE_LIBCURL

ckpt_status http_client_new(const ckpt_remote *remote, http_client **out, ckpt_error *err)
{
    (void)remote;
    *out = NULL;
    return fail(err, CKPT_EUNSUPPORTED, CKPT_NO_OFFSET,
                "this ckpt was built without libcurl, which reads from servers\n"
                "install libcurl4-openssl-dev, and build ckpt again");
}
void http_client_free(http_client *client) { (void)client; }
struct http_cache *http_client_cache(http_client *client)
{
    (void)client;
    return NULL; /* there is no client */
}
ckpt_status http_fetch(http_client *client, struct http_range *ranges, size_t count, ckpt_error *err)
{
    (void)client;
    (void)ranges;
    (void)count;
    return fail_memory(err); /* there is no client */
}

#else

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <inttypes.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "base/library.h"

#define DEFAULT_REQUESTS 16u
#define MOST_REQUESTS    64u
#define MAX_REDIRECTS    5u
#define MAX_TRIES        5u
#define MAX_REPLIES      64u    /* to one range, each with some of its bytes */
#define FIRST_DELAY      500u   /* ms; doubled for each further try */
#define LONGEST_DELAY    60000u /* ms, also if the server asks for more */
#define POLL_TIME        100    /* ms */
#define CONNECT_TIME     15L    /* s, with the TLS handshake */
#define SILENT_TIME      60L    /* s without a byte after which a request ends */
#define MAX_ERROR_BODY                                                                                       \
    65536u /* bytes of a reply that is not what was asked for: read so that its connection can be used */
#define MAX_HEADER   8192u /* bytes of one header that is sent: tokens may have thousands */
#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define FUNCTIONS(X)                                                                                         \
    X(curl_easy_cleanup)                                                                                     \
    X(curl_easy_init)                                                                                        \
    X(curl_easy_reset)                                                                                       \
    X(curl_easy_setopt)                                                                                      \
    X(curl_easy_strerror)                                                                                    \
    X(curl_global_init)                                                                                      \
    X(curl_multi_add_handle)                                                                                 \
    X(curl_multi_cleanup)                                                                                    \
    X(curl_multi_info_read)                                                                                  \
    X(curl_multi_init)                                                                                       \
    X(curl_multi_perform)                                                                                    \
    X(curl_multi_poll)                                                                                       \
    X(curl_multi_remove_handle)                                                                              \
    X(curl_slist_append)                                                                                     \
    X(curl_slist_free_all)

struct libcurl {
    FUNCTIONS(LIBRARY_POINTER)
};

#ifdef LIBCURL_SONAME
LIBRARY_NOTE(libcurl, LIBCURL_SONAME, "suggested")
LIBRARY_LOADED(libcurl, FUNCTIONS, "reads from servers", LIBCURL_SONAME)
#else
LIBRARY_LINKED(libcurl, FUNCTIONS)
#endif

enum transfer_state { IDLE, RUNNING, WAITING };

/* One request in flight, and those that follow it for the same range. */
struct transfer {
    http_client *client;
    enum transfer_state state;
    CURL *easy;
    struct curl_slist *headers;
    struct http_range *range;
    char *url;        /* of the request. Owned */
    char *redirected; /* the URL that a redirect led to; NULL: none did. Owned */
    unsigned redirects, tries, replies;
    bool was_resolved_again; /* the URL where redirects ended was refused once */
    uint64_t start_at;       /* when it is WAITING: in ms */
    struct http_reply reply;
    bool is_judged;        /* the reply was compared with what was asked for */
    ckpt_status verdict;   /* of that, or of the body */
    struct http_span body; /* of the reply */
    uint64_t received;     /* bytes of BODY */
    uint64_t ignored;      /* bytes of a body that is not read */
    ckpt_error err;        /* of VERDICT */
    char curl_error[CURL_ERROR_SIZE];
};

struct http_client {
    const struct libcurl *curl;
    const ckpt_remote *remote;
    pthread_mutex_t lock; /* held by http_fetch */
    CURLM *multi;
    struct transfer *transfers;
    size_t ntransfers;
    struct http_cache cache;
};

struct http_cache *http_client_cache(http_client *client) { return &client->cache; }

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------- what is sent */

/* choose_url - returns the URL of the next request of TRANSFER. Others may change what it is after that. */
static const char *choose_url(const struct transfer *transfer)
{
    const struct http_file *file = transfer->range->file;
    return transfer->redirected ? transfer->redirected : file->resolved ? file->resolved : file->address.url;
}

/* get_asked - returns the bytes of the range that were not read yet. */
static struct http_span get_asked(const struct http_range *range)
{
    if (range->asked.is_suffix || range->asked.is_document)
        return range->asked;
    return (struct http_span){.from = range->asked.from + range->count,
                              .count = range->asked.count - range->count};
}

static bool add_header(struct transfer *transfer, const char *name, const char *value)
{
    char line[MAX_HEADER];
    const struct libcurl *curl = transfer->client->curl;
    int n = snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = n > 0 && (size_t)n < sizeof line
                                    ? curl->curl_slist_append(transfer->headers, line)
                                    : NULL;
    transfer->headers = longer ? longer : transfer->headers;
    return longer != NULL;
}

/* add_credentials - adds what shows the server at URL who asks, if that is the server that it is for. */
static bool add_credentials(struct transfer *transfer, const char *url)
{
    char text[MAX_HEADER];
    const struct libcurl *curl = transfer->client->curl;
    const ckpt_remote *remote = transfer->client->remote;
    const struct address *address = &transfer->range->file->address;
    if (!url_has_same_origin(url, address->url))
        return true;
    (void)curl->curl_easy_setopt(transfer->easy, CURLOPT_NETRC,
                                 (long)(remote->netrc ? CURL_NETRC_OPTIONAL : CURL_NETRC_IGNORED));
    if (address->credentials == CREDENTIALS_HUB) {
        int n = snprintf(text, sizeof text, "Bearer %s", remote->hub_token);
        return n > 0 && (size_t)n < sizeof text && add_header(transfer, "Authorization", text);
    }
    if (address->credentials != CREDENTIALS_S3)
        return true;
    int n = snprintf(text, sizeof text, "aws:amz:%s:s3", remote->s3_region ? remote->s3_region : "us-east-1");
    return n > 0 && (size_t)n < sizeof text &&
           curl->curl_easy_setopt(transfer->easy, CURLOPT_AWS_SIGV4, text) == CURLE_OK &&
           curl->curl_easy_setopt(transfer->easy, CURLOPT_USERNAME, remote->s3_key_id) == CURLE_OK &&
           curl->curl_easy_setopt(transfer->easy, CURLOPT_PASSWORD, remote->s3_secret) == CURLE_OK &&
           add_header(transfer, "x-amz-content-sha256", EMPTY_SHA256) &&
           (!remote->s3_session || add_header(transfer, "x-amz-security-token", remote->s3_session));
}

static bool set_range(struct transfer *transfer)
{
    char text[64];
    const struct http_span asked = get_asked(transfer->range);
    const struct http_identity *known = &transfer->range->file->identity;
    bool asks_where = transfer->was_resolved_again &&
                      !transfer->redirected; /* not of the server with the file */
    if (asked.is_document)
        return true;
    if (asked.is_suffix)
        (void)snprintf(text, sizeof text, "-%" PRIu64, asked.count);
    else
        (void)snprintf(text, sizeof text, "%" PRIu64 "-%" PRIu64, asked.from, asked.from + asked.count - 1);
    return transfer->client->curl->curl_easy_setopt(transfer->easy, CURLOPT_RANGE, text) == CURLE_OK &&
           (!known->etag[0] || asks_where || add_header(transfer, "If-Match", known->etag));
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    bool ok = http_reply_add(&t->reply, str_of(bytes, size * count)); /* SIZE is 1 */
    return ok ? size * count : 0;
}

/* judge - compares a reply that may have what was asked for with that. */
static void judge(struct transfer *transfer)
{
    const struct http_span asked = get_asked(transfer->range);
    unsigned code = transfer->reply.code;
    if (transfer->is_judged || (code != 200 && code != 206 && code != 416))
        return;
    transfer->is_judged = true;
    transfer->verdict = http_reply_check(&transfer->reply, &asked, &transfer->range->file->identity,
                                         &transfer->body, &transfer->err);
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t n = size * count; /* SIZE is 1 */
    judge(t);
    if (!t->is_judged || t->reply.code == 416)
        return (t->ignored += n) <= MAX_ERROR_BODY ? n : 0;
    if (t->verdict != CKPT_OK)
        return 0;
    if (n > t->body.count - t->received) {
        t->verdict = fail(&t->err, CKPT_EFORMAT, CKPT_NO_OFFSET,
                          "the server sent {more bytes} than {=the %" PRIu64 "} that it announced",
                          t->body.count);
        return 0;
    }
    memcpy(t->range->bytes + t->range->count + t->received, bytes, n);
    t->received += n;
    return n;
}

#ifndef CA_FILES
#define CA_FILES /* names, each with a comma after it */
#endif

/* choose_ca_file - returns the file of the authorities that the user trusts, or else of those that the system
 * does; NULL: libcurl knows it. One that is linked for all distributions (make CA_FILES) does not. */
static const char *choose_ca_file(const ckpt_remote *remote)
{
    static const char *const files[] = {CA_FILES NULL};
    const char *const *file = files;
    while (!remote->ca_file && *file && access(*file, R_OK) != 0)
        file++;
    return remote->ca_file ? remote->ca_file : *file;
}

static bool set_options(struct transfer *transfer, const char *url)
{
    const struct libcurl *curl = transfer->client->curl;
    const char *ca_file = choose_ca_file(transfer->client->remote);
    CURL *e = transfer->easy;
#define SET(option, value) (curl->curl_easy_setopt(e, option, value) == CURLE_OK)
#if LIBCURL_VERSION_NUM >= 0x075500
    bool limited = SET(CURLOPT_PROTOCOLS_STR, "http,https");
#else
    bool limited = SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    return limited && SET(CURLOPT_URL, url) && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_USERAGENT, "ckpt/" CKPT_VERSION) && SET(CURLOPT_CONNECTTIMEOUT, CONNECT_TIME) &&
           SET(CURLOPT_LOW_SPEED_LIMIT, 1L) && SET(CURLOPT_LOW_SPEED_TIME, SILENT_TIME) &&
           SET(CURLOPT_HEADERFUNCTION, on_header) && SET(CURLOPT_HEADERDATA, transfer) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, transfer) &&
           SET(CURLOPT_ERRORBUFFER, transfer->curl_error) && SET(CURLOPT_PRIVATE, transfer) &&
           SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) && (!ca_file || SET(CURLOPT_CAINFO, ca_file));
#undef SET
}

static ckpt_status start(struct transfer *transfer, ckpt_error *err)
{
    const struct libcurl *curl = transfer->client->curl;
    char *url = strdup(choose_url(transfer));
    CKPT_TRY_ALLOC(url, err);
    free(transfer->url);
    transfer->url = url;
    if (!transfer->easy)
        CKPT_TRY_ALLOC(transfer->easy = curl->curl_easy_init(), err);
    curl->curl_easy_reset(transfer->easy);
    curl->curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    http_reply_clear(&transfer->reply);
    transfer->is_judged = false;
    transfer->verdict = CKPT_OK;
    transfer->received = transfer->ignored = 0;
    transfer->curl_error[0] = '\0';
    CKPT_TRY_ALLOC(
        set_options(transfer, url) && set_range(transfer) &&
            add_header(transfer, "Accept-Encoding", "identity") && add_credentials(transfer, url) &&
            curl->curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK &&
            curl->curl_multi_add_handle(transfer->client->multi, transfer->easy) == CURLM_OK,
        err);
    transfer->state = RUNNING;
    return CKPT_OK;
}

/* --------------------------------------------------------------- what is received */

static void stop(struct transfer *transfer)
{
    if (transfer->state == RUNNING)
        (void)transfer->client->curl->curl_multi_remove_handle(transfer->client->multi, transfer->easy);
    transfer->state = IDLE;
    free(transfer->redirected);
    free(transfer->url);
    transfer->redirected = transfer->url = NULL;
}

/* try_later - makes TRANSFER wait for its next try. False: it has had all its tries. */
static bool try_later(struct transfer *transfer)
{
    uint64_t delay = FIRST_DELAY << transfer->tries, asked = transfer->reply.retry_after, now = now_ms();
    if (++transfer->tries == MAX_TRIES)
        return false;
    delay += (now ^ (uintptr_t)transfer) % (FIRST_DELAY / 2); /* so that many clients do not come at once */
    if (asked != HTTP_UNKNOWN && asked > delay / 1000)
        delay = asked < LONGEST_DELAY / 1000 ? asked * 1000 : LONGEST_DELAY;
    transfer->start_at = now + delay;
    transfer->state = WAITING;
    return true;
}

/* is_gone - returns true if a reply with STATUS means that there is no such file. */
static bool is_gone(unsigned status) { return status == 404 || status == 410; }

/* hint_access - adds the hint what may have been missing for access. */
static void hint_access(const struct transfer *transfer, ckpt_error *err)
{
    const struct http_file *file = transfer->range->file;
    const ckpt_remote *remote = transfer->client->remote;
    const char *shown = file->address.shown ? file->address.shown : "";
    if (file->address.credentials == CREDENTIALS_HUB)
        error_add_hint(
            err, "it was asked with the token of %s: is it valid, and has it access to this repository?",
            remote->hub_token_from ? remote->hub_token_from : "the program");
    else if (file->is_of_hub)
        error_add_hint(err,
                       "the repository is gated, private or absent: set HF_TOKEN to a token that has access");
    else if (file->address.credentials == CREDENTIALS_S3)
        error_add_hint(
            err, "it was asked with AWS_ACCESS_KEY_ID: does that have access, and is AWS_REGION right?");
    else if (strncasecmp(shown, "s3:", 3) == 0)
        error_add_hint(err, "it was asked without a signature: set AWS_ACCESS_KEY_ID and "
                            "AWS_SECRET_ACCESS_KEY; profiles are not read");
    else if (strchr(file->address.url, '?'))
        error_add_hint(err, "the signature in the URL may have expired");
    else
        error_add_hint(err, "--netrc sends the name and password of ~/.netrc; a signed URL needs its query");
}

/* explain_absence - returns the hint what may be wrong if the Hub does not find a file. */
static const char *explain_absence(const struct transfer *transfer)
{
    const char *why = transfer->reply.why;
    if (strcmp(why, "EntryNotFound") == 0)
        return "the repository has no such file; ckpt ls hf://ORG/REPO finds its checkpoint";
    if (strcmp(why, "RevisionNotFound") == 0)
        return "the repository has no such branch, tag or commit";
    return transfer->range->file->address.credentials == CREDENTIALS_HUB
               ? "the repository, its revision or the file is absent, or gated for this token"
               : "absent, or gated or private: then set HF_TOKEN to a token that has access";
}

/* fail_refused - fails because the server answers with a status that refuses the file. */
static ckpt_status fail_refused(const struct transfer *transfer, ckpt_error *err)
{
    unsigned code = transfer->reply.code;
    bool of_hub = transfer->range->file->is_of_hub;
    ckpt_status st = fail(err,
                          is_gone(code) ? CKPT_ENOTFOUND
                          : code == 412 ? CKPT_ECHANGED
                                        : CKPT_EIO,
                          CKPT_NO_OFFSET,
                          code == 412 ? "it changed while it was read (the server answers with {status %u})"
                                      : "the server answers with {status %u}",
                          code);
    if (code == 401 || code == 403)
        hint_access(transfer, err);
    else if (st == CKPT_ENOTFOUND && of_hub)
        error_add_hint(err, "%s", explain_absence(transfer));
    else if (st == CKPT_ECHANGED)
        error_add_hint(err, "read it again when no one writes to it");
    return st;
}

/* took_too_long - returns true if CODE means that TRANSFER did not get an encrypted connection in time. Only
 * libcurl's text tells that from an answer which took too long, and only libcurl 7 names TLS in it. */
static bool took_too_long(const struct transfer *transfer, CURLcode code)
{
    return code == CURLE_OPERATION_TIMEDOUT && (strncmp(transfer->curl_error, "SSL ", 4) == 0 ||
                                                (strncmp(transfer->curl_error, "Connection ", 11) == 0 &&
                                                 strncasecmp(transfer->url, "https:", 6) == 0));
}

static ckpt_status fail_connection(const struct transfer *transfer, CURLcode code, ckpt_error *err)
{
    const char *why = transfer->curl_error[0] ? transfer->curl_error
                                              : transfer->client->curl->curl_easy_strerror(code);
    (void)fail(err, CKPT_EIO, CKPT_NO_OFFSET, "the connection failed: {%s}", why);
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        error_add_hint(err, "--cacert FILE trusts the authorities in FILE, if the server has one of its own");
    else if (code == CURLE_SSL_CONNECT_ERROR)
        error_add_hint(err,
                       "the server did not answer the TLS handshake: is its URL http:// and not https://?");
    else if (took_too_long(transfer, code))
        error_add_hint(err, "the server did not answer, or not the TLS handshake: is its URL http:// and not "
                            "https://?");
    return CKPT_EIO;
}

static bool is_transient(CURLcode code)
{
    switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

/* follow - lets the next request of TRANSFER go where the reply leads. */
static ckpt_status follow(struct transfer *transfer, ckpt_error *err)
{
    char *next;
    if (!transfer->reply.location)
        return fail(err, CKPT_EFORMAT, CKPT_NO_OFFSET, "the server redirects (status %u) to {nowhere}",
                    transfer->reply.code);
    if (++transfer->redirects > MAX_REDIRECTS)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET, "the server redirects {more} than {=%u times}",
                    MAX_REDIRECTS);
    CKPT_TRY(url_follow(transfer->url, str_c(transfer->reply.location), &next, err));
    free(transfer->redirected);
    transfer->redirected = next;
    return start(transfer, err);
}

/* keep_body - keeps what was read of the range, and asks for more of it if the server sent less. */
static ckpt_status keep_body(struct transfer *transfer, bool complete, ckpt_error *err)
{
    struct http_range *r = transfer->range;
    struct http_file *file = r->file;
    bool is_first = r->count == 0;
    if (transfer->redirected) {
        free(file->resolved);
        file->resolved = transfer->redirected;
        transfer->redirected = NULL;
    }
    if ((r->asked.is_suffix || r->asked.is_document) && !complete)
        return CKPT_OK; /* what was read is the begin of it: it is read again */
    r->has_next = transfer->reply.has_next;
    r->from = is_first ? transfer->body.from : r->from;
    r->count += transfer->received;
    if (transfer->received)
        transfer->tries = 0;
    if (++transfer->replies > MAX_REPLIES)
        return fail(err, CKPT_EIO, CKPT_NO_OFFSET,
                    "the server sends %" PRIu64 " bytes in {more} than {=%u pieces}", r->asked.count,
                    MAX_REPLIES);
    uint64_t left = file->identity.size - r->from, wanted = r->asked.count < left ? r->asked.count : left;
    if (r->asked.is_suffix || r->asked.is_document || r->count >= wanted || !complete) {
        if (complete)
            stop(transfer);
        return CKPT_OK;
    }
    return start(transfer, err);
}

static bool is_hexadecimal(const char *text)
{
    while (str_digit(*text) < 16)
        text++;
    return *text == '\0';
}

/* finish - handles the end of a request of TRANSFER with CODE: ends it, or begins the next. */
static ckpt_status finish(struct transfer *transfer, CURLcode code, ckpt_error *err)
{
    struct http_range *r = transfer->range;
    (void)transfer->client->curl->curl_multi_remove_handle(transfer->client->multi, transfer->easy);
    transfer->state = IDLE;
    judge(transfer);
    if (!r->file->commit[0] && is_hexadecimal(transfer->reply.commit) &&
        url_has_same_origin(transfer->url, r->file->address.url))
        memcpy(r->file->commit, transfer->reply.commit, sizeof r->file->commit);
    unsigned status = transfer->reply.code;
    if (transfer->verdict == CKPT_EUNSUPPORTED && r->asked.is_suffix) {
        r->count = 0; /* what is needed of its end is requested by position */
        stop(transfer);
        return CKPT_OK;
    }
    if (transfer->verdict != CKPT_OK) {
        *err = transfer->err;
        return transfer->verdict;
    }
    if (transfer->is_judged && code == CURLE_OK)
        return keep_body(transfer, true, err);
    if (transfer->is_judged)
        CKPT_TRY(keep_body(transfer, false, err));
    if (status >= 300 && status < 400 && (code == CURLE_OK || code == CURLE_WRITE_ERROR))
        return follow(transfer, err);
    bool asked_where = strcmp(transfer->url, r->file->address.url) == 0;
    if ((status == 401 || status == 403) && !transfer->redirected && !asked_where &&
        !transfer->was_resolved_again) { /* a signed URL has expired */
        transfer->was_resolved_again = true;
        free(r->file->resolved);
        r->file->resolved = NULL;
        return start(transfer, err);
    }
    bool transient = transfer->is_judged ? is_transient(code)
                     : status            ? http_reply_is_transient(&transfer->reply)
                                         : is_transient(code) && code != CURLE_OPERATION_TIMEDOUT;
    if (transient && try_later(transfer))
        return CKPT_OK;
    if (is_gone(status) && r->may_be_absent) {
        r->is_absent = true;
        r->count = 0;
        stop(transfer);
        return CKPT_OK;
    }
    return status && !transfer->is_judged ? fail_refused(transfer, err)
                                          : fail_connection(transfer, code, err);
}

/* ------------------------------------------------------------------- many at a time */

/* start_next - starts or resumes transfers of the COUNT RANGES, of which *NEXT were started. Sets *BUSY to
 * whether there are any. */
static ckpt_status start_next(http_client *client, struct http_range *ranges, size_t count, size_t *next,
                              bool *busy, ckpt_error *err)
{
    uint64_t now = now_ms();
    *busy = false;
    for (size_t i = 0; i < client->ntransfers; i++) {
        struct transfer *t = &client->transfers[i];
        if (t->state == IDLE && *next < count) {
            t->range = &ranges[(*next)++];
            t->range->count = 0;
            t->range->from = t->range->asked.from;
            t->redirects = t->tries = t->replies = 0;
            t->was_resolved_again = false;
            CKPT_TRY(start(t, err));
        } else if (t->state == WAITING && now >= t->start_at) {
            CKPT_TRY(start(t, err));
        }
        *busy = *busy || t->state != IDLE;
    }
    return CKPT_OK;
}

/* find_transfer - returns the transfer of EASY. */
static struct transfer *find_transfer(http_client *client, const CURL *easy)
{
    size_t i = 0;
    while (client->transfers[i].easy != easy)
        i++;
    return &client->transfers[i];
}

static ckpt_status finish_ended(http_client *client, ckpt_error *err)
{
    int left;
    for (CURLMsg *m; (m = client->curl->curl_multi_info_read(client->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        struct transfer *t = find_transfer(client, m->easy_handle);
        const struct address *address = &t->range->file->address;
        ckpt_status st = finish(t, m->data.result, err);
        if (st == CKPT_OK)
            continue;
        ckpt_str shown = url_show(address->shown ? address->shown : address->url);
        char name[512];
        (void)snprintf(name, sizeof name, "%.*s",
                       (int)(shown.len < sizeof name ? shown.len : sizeof name - 1), shown.ptr);
        return name_file_if_failed(st, name, err);
    }
    return CKPT_OK;
}

static bool is_busy(const http_client *client)
{
    bool busy = false;
    for (size_t i = 0; i < client->ntransfers; i++)
        busy = busy || client->transfers[i].state != IDLE;
    return busy;
}

static ckpt_status fetch(http_client *client, struct http_range *ranges, size_t count, ckpt_error *err)
{
    size_t next = 0;
    int running;
    for (bool busy = true; busy;) {
        CKPT_TRY(start_next(client, ranges, count, &next, &busy, err));
        if (!busy)
            break;
        if (client->curl->curl_multi_perform(client->multi, &running) != CURLM_OK)
            return fail_memory(err);
        CKPT_TRY(finish_ended(client, err));
        if (is_busy(client)) /* also until the time of a next try, when no connection is open */
            (void)client->curl->curl_multi_poll(client->multi, NULL, 0, POLL_TIME, NULL);
    }
    return CKPT_OK;
}

ckpt_status http_fetch(http_client *client, struct http_range *ranges, size_t count, ckpt_error *err)
{
    pthread_mutex_lock(&client->lock);
    ckpt_status st = fetch(client, ranges, count, err);
    for (size_t i = 0; i < client->ntransfers; i++)
        stop(&client->transfers[i]);
    pthread_mutex_unlock(&client->lock);
    return st;
}

/* ------------------------------------------------------------------------ client */

ckpt_status http_client_new(const ckpt_remote *remote, http_client **out, ckpt_error *err)
{
    const struct libcurl *curl;
    *out = NULL;
    ckpt_status st = load_libcurl(&curl, err);
    if (library_is_missing(err) && st != CKPT_OK)
        error_add_hint(err, "install libcurl (Debian: libcurl4)");
    CKPT_TRY(st);
    (void)curl->curl_global_init(CURL_GLOBAL_DEFAULT); /* again does no harm, nor from several threads */
    http_client *c = calloc(1, sizeof *c);
    CKPT_TRY_ALLOC(c, err);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->cache.lock, NULL);
    c->curl = curl;
    c->remote = remote;
    size_t n = remote->max_requests ? remote->max_requests : DEFAULT_REQUESTS;
    c->ntransfers = n < MOST_REQUESTS ? n : MOST_REQUESTS;
    c->multi = curl->curl_multi_init();
    c->transfers = calloc(c->ntransfers, sizeof *c->transfers);
    if (!c->multi || !c->transfers) {
        c->ntransfers = c->transfers ? c->ntransfers : 0;
        http_client_free(c);
        return fail_memory(err);
    }
    for (size_t i = 0; i < c->ntransfers; i++)
        c->transfers[i].client = c;
    *out = c;
    return CKPT_OK;
}

void http_client_free(http_client *client)
{
    if (!client)
        return;
    for (size_t i = 0; i < client->ntransfers; i++) {
        http_reply_clear(&client->transfers[i].reply);
        client->curl->curl_slist_free_all(client->transfers[i].headers);
        if (client->transfers[i].easy)
            client->curl->curl_easy_cleanup(client->transfers[i].easy);
    }
    free(client->transfers);
    if (client->multi)
        (void)client->curl->curl_multi_cleanup(client->multi);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->cache.lock);
    free(client);
}

#endif

void http_file_free(struct http_file *file)
{
    address_free(&file->address);
    free(file->resolved);
}
