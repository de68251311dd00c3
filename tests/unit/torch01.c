#include "torch01.h"

const char *const torch01_names[3] = {"storages", "tensors", "pickle"};
const ckpt_str torch01_valid_members[3] = {CONSTANT(COUNT_1 STORAGE_7 FOUR_ELEMENTS DATA NO_VIEWS),
                                           CONSTANT(COUNT_1 TENSOR_8 SHAPE_2X2 OFFSET_0),
                                           CONSTANT(ROOT_OBJECT)};

void torch01_put(buf *b, const ckpt_str members[3])
{
    for (int i = 0; i < 3; i++)
        if (members[i].ptr)
            tar_member(b, torch01_names[i], '0', members[i]);
    tar_end(b);
}
