/* open.c - fuzz target: opens the bytes and calls every reading function (exercise.h). */
#include "../exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    exercise_memory(data, size, "fuzz");
    return 0;
}
