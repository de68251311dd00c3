/* hash_bytes.h - `ckpt hash` of the bytes of a file instead of its tensors. */
#ifndef CLI_HASH_BYTES_H
#define CLI_HASH_BYTES_H

/* Each answers for one file and returns an exit code. */
int hash_of_file(const char *path);
int hash_of_payload(const char *path);
int hash_in_name(const char *path);
int hash_check_name(const char *path);

#endif
