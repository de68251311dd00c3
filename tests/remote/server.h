/* server.h - requests and replies of the server, for its files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define MAX_HEADERS 48
#define MAX_REQUEST ((size_t)16 << 10)
#define MAX_PATH    1024u

/* What clients have to send; test data, not secrets of anyone. */
#define HUB_TOKEN     "hf_TestTokenOfTheFakeHub"
#define HUB_COMMIT    "0123456789abcdef0123456789abcdef01234567"
#define S3_KEY        "AKIATESTKEY"
#define S3_SESSIONKEY "ASIATESTKEY" /* the key that needs S3_SESSION */
#define S3_SECRET     "testSecretKey/with+signs"
#define S3_SESSION    "testSessionToken/with+signs=="
/* The query of signed URLs, which is a secret, too. */
#define SIGNED_QUERY "X-Amz-Security-Token=QuerySecret&X-Amz-Signature="

/* How the reply differs from that of a good server. */
enum {
    NO_RANGES = 1 << 0,         /* 200 with the whole file */
    NO_SUFFIX = 1 << 1,         /* the same for "bytes=-N" */
    WEAK = 1 << 2,              /* ETag is W/"…" */
    NEW_ETAG = 1 << 3,          /* another in each reply */
    NEW_TOTAL = 1 << 4,         /* another total */
    NEW_DATE = 1 << 5,          /* another Last-Modified in each reply */
    IGNORE_IF_MATCH = 1 << 6,   /* no 412 */
    GZIP = 1 << 7,              /* Content-Encoding: gzip */
    ELSEWHERE = 1 << 8,         /* Content-Range of another place */
    HUGE_TOTAL = 1 << 9,        /* a total above 2^63 */
    NO_TOTAL = 1 << 10,         /* the total is '*' */
    NO_CONTENT_RANGE = 1 << 11, /* 206 without it */
    MULTIPART = 1 << 12,        /* 206 of multipart/byteranges */
    LONG_BODY = 1 << 13,        /* more bytes than the range has */
    CHUNKED = 1 << 14,          /* Transfer-Encoding: chunked */
    LATE = 1 << 23,             /* the reply begins after 100 ms */
    SLOW = 1 << 15,             /* a byte each 100 ms */
    HALF = 1 << 16,             /* closes after half of the body */
    RESET = 1 << 17,            /* resets the connection instead of a reply */
    GARBAGE = 1 << 18,          /* replies with what is not HTTP */
    ENDLESS_HEADERS = 1 << 19,  /* headers without end */
    ENDLESS_BODY = 1 << 20,     /* a body of 80 GiB */
    HANG = 1 << 21,             /* no reply */
    ESCAPES = 1 << 22,          /* ETag and a status text with the controls of a terminal */
    EMPTY = 1 << 24,            /* a range with its Content-Range, but no byte of it */
    CRUMBS = 1 << 25            /* one byte of a range, by its Content-Range, too */
};

struct header {
    const char *name, *value;
};

struct request {
    int fd, origin;          /* 0 or 1 */
    char bytes[MAX_REQUEST]; /* what headers and target point to */
    size_t len;              /* of bytes that were received */
    size_t head_len;         /* of this request */
    bool keep_alive;
    const char *method, *target, *query; /* target: as received; query: "" if there is none */
    char behaviour[64], tag[64];         /* of the first component; tag begins with '.', or is "" */
    char path[MAX_PATH];                 /* the target without its query, decoded */
    const char *file;                    /* what follows the first component in path */
    long numbers[2];                     /* those in the name of the behaviour */
    struct header headers[MAX_HEADERS];
    int nheaders;
};

struct reply {
    int status; /* 0: serve the file */
    unsigned flags;
    char headers[2048]; /* more of them */
    char *text;         /* the body if it is no file; owned */
    int64_t body_bytes; /* that were sent */
    bool close;
};

/* server.c */
extern const char *folder; /* of the files */
extern int ports[4];       /* the two origins, and two that were free */
/* count_up - adds one to the counter KEY and returns what it was; a large number if there are too many. */
long count_up(const char *key);
/* find_header - returns the value of the header NAME, in lower case, or NULL. */
const char *find_header(const struct request *request, const char *name);
/* sleep_ms - sleeps for MS milliseconds. */
void sleep_ms(long ms);

/* reply.c */
/* send_bytes - sends N bytes; returns false if the client has closed the connection. */
bool send_bytes(int fd, const void *bytes, size_t n);
/* add_header - adds a line to the headers of REPLY; one that does not fit is left out. */
__attribute__((format(printf, 2, 3))) void add_header(struct reply *reply, const char *format, ...);
/* open_file - opens the file NAME of the folder, sets *STATUS and returns the descriptor, or -1. */
int open_file(const char *name, struct stat *status);
/* send_reply - sends what REPLY describes, and sets the number of bytes that were sent. */
void send_reply(const struct request *request, struct reply *reply);

/* behaviours.c */
/* behave - sets REPLY by the behaviour that the target of REQUEST chooses; REQUEST may get another file. */
void behave(struct request *request, struct reply *reply);

/* signature.c */
/* find_s3_fault - returns what is wrong with the signature of REQUEST, as S3 calls it, or NULL. */
const char *find_s3_fault(const struct request *request);
/* encode_path - writes PATH with %XX for all but unreserved characters and '/', as S3 does to sign it. */
void encode_path(const char *path, char *out, size_t cap);
