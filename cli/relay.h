/* relay.h - passes the bytes of a file from one process, which reads them from a server, to another, which
 * has no right to do that. The reading process does not trust the other one: that may have been taken over
 * by the file. */
#pragma once

#include "ckpt.h"

#define RELAY_MAX (UINT32_C(1) << 20) /* most bytes of one request */

/* relay_fail - sends ERR to the process at the other end of SOCKET, in place of the bytes. */
void relay_fail(int socket, const ckpt_error *err);
/* relay_serve - sends the size of FROM, then what is requested at SOCKET, a stream socket, until it is
 * closed at the other end. Returns false if a request is not within FROM or longer than RELAY_MAX: nothing
 * is sent for it. */
bool relay_serve(int socket, const ckpt_callbacks *from);

/* The end of the process that gets the bytes. */
struct relay {
    int socket;
    uint64_t size;      /* 0 if it failed */
    ckpt_error failure; /* its status is CKPT_OK: there was none yet */
};

/* relay_begin - sets *RELAY to the file that is served at the other end of SOCKET; waits for its size. */
void relay_begin(struct relay *relay, int socket);
/* relay_open - sets OUT to callbacks that read by RELAY. They call nothing but read(2) and write(2).
 * Returns the status of the failure of RELAY, which ERR is set to. */
ckpt_status relay_open(struct relay *relay, ckpt_callbacks *out, ckpt_error *err);
