/* parts.h - the fuzz targets that flows.c defines for parts.c, and helpers that both files use. */
#ifndef FUZZ_PARTS_H
#define FUZZ_PARTS_H

#include "../exercise.h"

/* check_reason - aborts if ST is an error for which ERR has no reason. */
void check_reason(ckpt_status st, const ckpt_error *err);
/* is_environment_error - returns whether ERR is a lack of memory or an I/O error, which no input causes. */
bool is_environment_error(const ckpt_error *err);

/* make_target_files - makes the files that the targets in flows.c need. They are in a new folder, made
 * in the folder FUZZ_FOLDER (by default /tmp); the process removes the new folder when it ends. */
void make_target_files(void);

void fuzz_cast(const uint8_t *data, size_t size);
void fuzz_dequantize(const uint8_t *data, size_t size);
void fuzz_doctor(const uint8_t *data, size_t size);
void fuzz_in_place(const uint8_t *data, size_t size);
void fuzz_index(const uint8_t *data, size_t size);
void fuzz_lora(const uint8_t *data, size_t size);
void fuzz_journal(const uint8_t *data, size_t size);
void fuzz_match(const uint8_t *data, size_t size);
void fuzz_mem(const uint8_t *data, size_t size);
void fuzz_manifest(const uint8_t *data, size_t size);
void fuzz_map(const uint8_t *data, size_t size);
void fuzz_ranks(const uint8_t *data, size_t size);
void fuzz_round_trip(const uint8_t *data, size_t size);
void fuzz_rules(const uint8_t *data, size_t size);
void fuzz_sanitize(const uint8_t *data, size_t size);
void fuzz_verify(const uint8_t *data, size_t size);

#endif
