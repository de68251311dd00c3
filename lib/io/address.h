/* address.h - what a URL that names a checkpoint stands for: where to ask, and as whom. A URL that is typed
 * begins with https://, http://, hf:// or s3://; one that is made here with https:// or http://. */
#pragma once

#include "base/str.h"
#include "base/error.h"

/* URL_MAX - the longest URL in bytes, typed or made. */
enum { URL_MAX = 8192 };

/* As whom requests to the origin of an address are sent. */
enum credentials {
    CREDENTIALS_NONE,
    CREDENTIALS_HUB, /* the bearer hub_token; only for hf:// */
    CREDENTIALS_S3   /* signed with s3_key_id and s3_secret; only for s3:// */
};

struct address {
    char *url; /* http or https, percent-encoded, without a fragment, a user or a password; owned */
    enum credentials credentials; /* NONE if the ckpt_remote has none of the kind */
    char *shown; /* what errors call it; NULL: URL. Set by the caller of address_resolve; owned */
};

/* address_is_url - returns true if PATH begins with https://, http://, hf:// or s3://, in any case. */
bool address_is_url(const char *path);
/* address_is_folder - returns true if the URL TYPED can be no file: its path ends in '/', or is missing in a
 * hf:// URL. */
bool address_is_folder(const char *typed);
/* address_resolve - sets *OUT to what the URL TYPED stands for; address_free frees it. TYPED may be a
 * folder, except in s3:// and hf:// URLs without a path. In a hf:// URL, COMMIT replaces the revision, unless
 * it is NULL or empty. CKPT_EUSAGE: TYPED or a setting of REMOTE is
 * malformed, has a user or password, or is too long, or a page of the Hub about a file; REMOTE has one of
 * s3_key_id and s3_secret without the other. No message has text of TYPED but the path of such a page: the
 * caller shows url_show(TYPED). */
ckpt_status address_resolve(const char *typed, const char *commit, const ckpt_remote *remote,
                            struct address *out, ckpt_error *err);
void address_free(struct address *address);
/* address_tree - sets *URL, which the caller frees, to the request that lists the files of the folder that
 * the hf:// URL TYPED names, by the Hub's tree API; COMMIT and the credentials are those of
 * address_resolve(). NULL: TYPED is no hf:// URL. */
ckpt_status address_tree(const char *typed, const char *commit, const ckpt_remote *remote, char **url,
                         ckpt_error *err);

/* url_has_same_origin - compares the origins: scheme and host in any case, port 80 or 443 as if it was
 * written. False if one of them is malformed. */
bool url_has_same_origin(const char *left, const char *right);
/* url_follow - sets *OUT, which the caller frees, to the URL that the Location of a redirect from URL means.
 * CKPT_EIO: another scheme than https, and http if URL is http; a user or password; control characters; a
 * malformed or too long URL. No message has text of LOCATION but its scheme. */
ckpt_status url_follow(const char *url, ckpt_str location, char **out, ckpt_error *err);
/* url_show - returns a piece of the URL that may be shown: without query and fragment. If there is a user,
 * even in a malformed URL, it is what follows the '@' after it: "host/path", without a scheme. */
ckpt_str url_show(const char *url);
/* url_join - sets *OUT, which the caller frees, to the URL of the file NAME in FOLDER, a URL with or without
 * a '/' at its end and without a query. NAME, which may come from a file, may have '/'. CKPT_EFORMAT: a
 * component of it is empty, "." or "..", or it has control characters. */
ckpt_status url_join(ckpt_str folder, ckpt_str name, char **out, ckpt_error *err);
