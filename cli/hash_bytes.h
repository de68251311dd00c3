/* hash_bytes.h - the options of `ckpt hash` that are about the bytes of a file, not its tensors. */
#ifndef CLI_HASH_BYTES_H
#define CLI_HASH_BYTES_H

/* Each prints the result for PATH and returns an exit code. */
int hash_of_file(const char *path);
int hash_of_payload(const char *path); /* what follows the header of a safetensors file */
int hash_in_name(const char *path);    /* the name for torch.hub, digest included */
int hash_check_name(const char *path);

#endif
