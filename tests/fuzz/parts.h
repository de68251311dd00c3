/* parts.h - fuzz targets that parts.c chooses from and flows.c holds. */
#ifndef FUZZ_PARTS_H
#define FUZZ_PARTS_H

#include "../exercise.h"

/* reason - a failure says why. */
void reason(ckpt_status st, const ckpt_error *err);
/* lacking - did something fail that has nothing to do with the bytes? */
bool lacking(const ckpt_error *err);

/* flows_begin - makes the files that some of them need in a new folder of FUZZ_FOLDER (/tmp). */
void flows_begin(void);

void flow_cast(const uint8_t *data, size_t size);
void flow_doctor(const uint8_t *data, size_t size);
void flow_in_place(const uint8_t *data, size_t size);
void flow_index(const uint8_t *data, size_t size);
void flow_journal(const uint8_t *data, size_t size);
void flow_mem(const uint8_t *data, size_t size);
void flow_manifest(const uint8_t *data, size_t size);
void flow_map(const uint8_t *data, size_t size);
void flow_ranks(const uint8_t *data, size_t size);
void flow_round(const uint8_t *data, size_t size);
void flow_sanitize(const uint8_t *data, size_t size);
void flow_verify(const uint8_t *data, size_t size);

#endif
