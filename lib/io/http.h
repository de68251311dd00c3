/* http.h - reads files on web servers: ranges of bytes, many at a time, with our own redirects and retries,
 * and no secret beyond the server that it is for. By libcurl, which is loaded for the first request. */
#pragma once

#include <pthread.h>

#include "io/address.h"
#include "io/http_reply.h"
#include "io/source.h"

#define HTTP_REQUEST_BYTES (UINT64_C(4) << 20)   /* most bytes of one request */
#define HTTP_FIRST_BYTES   (UINT64_C(128) << 10) /* of the first request for a file: most headers fit */

typedef struct http_client http_client;

/* The sources of a client, which share the memory for what they keep. */
struct http_cache {
    pthread_mutex_t lock;
    struct http_source *first;
};
/* http_client_cache - returns the cache of CLIENT. */
struct http_cache *http_client_cache(http_client *client);

/* A file on a server, as far as it is known. */
struct http_file {
    struct address address; /* owned */
    char *resolved;         /* where its redirects end, or NULL; owned */
    struct http_identity identity;
    char commit[64]; /* the revision of the Hub's repository, or empty */
    bool is_of_hub;  /* it was named by hf:// */
};

/* Bytes of FILE to be read into BYTES, which has room for them. */
struct http_range {
    struct http_file *file;
    struct http_span asked;
    unsigned char *bytes;
    uint64_t from, count; /* set: what was read. Less than was asked for: the file ends, or has no suffix */
    bool may_be_absent;   /* if there is no such file, nothing fails: */
    bool is_absent;       /* set */
    bool has_next;        /* set, of a document: it goes on in another */
};

/* http_client_new - sets *OUT to a client that sends requests as REMOTE has it, which must outlive it.
 * CKPT_EUNSUPPORTED: libcurl is missing. */
ckpt_status http_client_new(const ckpt_remote *remote, http_client **out, ckpt_error *err);
void http_client_free(http_client *client); /* NULL is allowed */
/* http_fetch - reads the COUNT RANGES, at most max_requests of REMOTE at a time, and returns when all are
 * read or one failed. Errors name the file without its query. Any thread may call it; one at a time reads.
 * CKPT_ENOTFOUND: the server has no such file. CKPT_ECHANGED: the file is not the one that it was at an
 * earlier request. */
ckpt_status http_fetch(http_client *client, struct http_range *ranges, size_t count, ckpt_error *err);
void http_file_free(struct http_file *file); /* frees what FILE owns */

/* How sources are opened. */
struct http_opening {
    http_client *client; /* must outlive them */
    bool is_of_hub;      /* they were named by hf:// */
    bool may_be_absent;  /* the source of a file that is not there is NULL; else all are opened or none */
};

/* http_sources_open - makes a source of each of the COUNT files at ADDRESSES, which it takes over, and reads
 * the first HTTP_FIRST_BYTES of each; of a file whose name is that of an archive also the last. A source
 * keeps some of the bytes that were read, and reads on ahead of what is read in order. */
ckpt_status http_sources_open(const struct http_opening *how, struct address *addresses, size_t count,
                              source **out, ckpt_error *err);
/* http_source_file - returns what is known of the file that SRC, made by http_sources_open, reads. */
const struct http_file *http_source_file(const source *src);
