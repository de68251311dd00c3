/* open.c - fuzz target: open bytes and ask everything of them. */
#include "../exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exercise_memory(data, size, "fuzz");
    return 0;
}
