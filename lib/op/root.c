/* root.c - see root.h. */
#include "op/root.h"

bool root_above(ckpt_str root, ckpt_str name)
{
    return name.len > root.len + 1 && str_starts(name, root) && name.ptr[root.len] == '.';
}

ckpt_status root_find(ckpt_file *f, const char *root, ckpt_str *out, ckpt_error *err)
{
    *out = str_c(root ? root : "");
    if (root && strcmp(root, "auto") == 0) {
        ckpt_info info;
        CKPT_TRY(ckpt_inspect(f, &info, err));
        *out = info.has_weights ? info.weights_root : str_c("");
    }
    for (uint32_t i = 0; out->len && i < f->table.nrows; i++)
        if (root_above(*out, f->table.rows[i].t.name))
            return CKPT_OK;
    *out = str_c("");
    return CKPT_OK;
}
