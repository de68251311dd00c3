/*
 * signature.c - checks the signature, AWS's version 4, of requests to S3: signs the request as it was
 * received, with the key of the tests, and compares.
 */
#include "server.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void hex(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void hmac(const unsigned char *key, size_t key_len, const char *text, unsigned char out[32])
{
    HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, strlen(text), out, NULL);
}

void encode_path(const char *path, char *out, size_t cap)
{
    size_t len = 0;
    for (; *path && len + 4 < cap; path++) {
        if (isalnum((unsigned char)*path) || strchr("-._~/", *path))
            out[len++] = *path;
        else
            len += (size_t)snprintf(out + len, cap - len, "%%%02X", (unsigned)(unsigned char)*path);
    }
    out[len] = 0;
}

/* A header Authorization of AWS's signature version 4, cut into its parts. */
struct signature {
    char key[64], date[16], region[32], names[512], hex[72];
};

/* cut_after - copies to OUT what follows LABEL in TEXT, up to one of ENDS; returns what comes after that, or
 * NULL if LABEL is not there or OUT is too small. */
static const char *cut_after(const char *text, const char *label, const char *ends, char *out, size_t cap)
{
    const char *begin = text ? strstr(text, label) : NULL;
    if (!begin)
        return NULL;
    begin += strlen(label);
    size_t len = strcspn(begin, ends);
    if (len >= cap)
        return NULL;
    snprintf(out, cap, "%.*s", (int)len, begin);
    return begin + len;
}

static bool parse_signature(const char *header, struct signature *signature)
{
    if (!header || strncmp(header, "AWS4-HMAC-SHA256 ", 17) != 0)
        return false;
    const char *at = cut_after(header, "Credential=", "/", signature->key, sizeof signature->key);
    at = cut_after(at, "/", "/", signature->date, sizeof signature->date);
    at = cut_after(at, "/", "/", signature->region, sizeof signature->region);
    return at && strncmp(at, "/s3/aws4_request", 16) == 0 &&
           cut_after(header, "SignedHeaders=", ", ", signature->names, sizeof signature->names) &&
           cut_after(header, "Signature=", ", ", signature->hex, sizeof signature->hex);
}

/* is_signed - returns true if NAME is one of those in NAMES, which ';' separates. */
static bool is_signed(const char *names, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = names; (at = strstr(at, name)); at++)
        if ((at == names || at[-1] == ';') && (at[len] == ';' || !at[len]))
            return true;
    return false;
}

/* write_canonical_headers - writes the signed headers to OUT, a line for each. */
static void write_canonical_headers(const struct request *request, const char *names, char *out, size_t cap)
{
    size_t len = 0;
    out[0] = 0;
    for (const char *at = names; *at; at += strcspn(at, ";"), at += *at == ';') {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ";"), at);
        const char *value = find_header(request, name);
        len += (size_t)snprintf(out + len, cap - len, "%s:%s\n", name, value ? value : "");
        if (len >= cap)
            return;
    }
}

/* hash_request - writes the SHA-256 of the canonical form of REQUEST to OUT as text. */
static void hash_request(const struct request *request, const struct signature *signature, char out[65])
{
    char path[MAX_PATH * 3], headers[4096], text[12288];
    const char *body_hash = find_header(request, "x-amz-content-sha256");
    encode_path(request->path, path, sizeof path);
    write_canonical_headers(request, signature->names, headers, sizeof headers);
    snprintf(text, sizeof text, "%s\n%s\n%s\n%s\n%s\n%s", request->method, path, request->query, headers,
             signature->names, body_hash ? body_hash : "");
    unsigned char digest[32];
    EVP_Digest(text, strlen(text), digest, NULL, EVP_sha256(), NULL);
    hex(digest, sizeof digest, out);
}

/* sign - writes the signature that REQUEST should have to OUT as text. */
static void sign(const struct request *request, const struct signature *signature, const char *date,
                 char out[65])
{
    char hash[65], text[512];
    unsigned char key[32];
    hash_request(request, signature, hash);
    snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", date, signature->date,
             signature->region, hash);
    hmac((const unsigned char *)"AWS4" S3_SECRET, strlen("AWS4" S3_SECRET), signature->date, key);
    hmac(key, sizeof key, signature->region, key);
    hmac(key, sizeof key, "s3", key);
    hmac(key, sizeof key, "aws4_request", key);
    hmac(key, sizeof key, text, key);
    hex(key, sizeof key, out);
}

/* is_recent - returns true if DATE, as 20260131T235959Z, is less than 15 minutes from now. */
static bool is_recent(const char *date)
{
    time_t now = time(NULL);
    for (time_t when = now - 900; when <= now + 900; when++) {
        char text[24];
        struct tm utc;
        strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", gmtime_r(&when, &utc));
        if (strcmp(text, date) == 0)
            return true;
    }
    return false;
}

const char *find_s3_fault(const struct request *request)
{
    struct signature signature;
    char expected[65];
    const char *date = find_header(request, "x-amz-date"),
               *session = find_header(request, "x-amz-security-token");
    if (!parse_signature(find_header(request, "authorization"), &signature))
        return "AccessDenied";
    bool with_session = strcmp(signature.key, S3_SESSIONKEY) == 0;
    if (!with_session && strcmp(signature.key, S3_KEY) != 0)
        return "InvalidAccessKeyId";
    if (with_session != !!session || (session && strcmp(session, S3_SESSION) != 0))
        return "InvalidToken";
    if (!date || !is_recent(date) || strncmp(date, signature.date, 8) != 0)
        return "RequestTimeTooSkewed";
    if (!find_header(request, "x-amz-content-sha256"))
        return "MissingSecurityHeader";
    for (int i = 0; i < request->nheaders; i++) {
        const char *name = request->headers[i].name;
        if ((strncmp(name, "x-amz-", 6) == 0 || strcmp(name, "host") == 0) &&
            !is_signed(signature.names, name))
            return "HeadersNotSigned";
    }
    sign(request, &signature, date, expected);
    return strcmp(expected, signature.hex) == 0 ? NULL : "SignatureDoesNotMatch";
}
