/* script.h - TorchScript of torch 1.0 to 1.3, which has no pickle. */
#ifndef FORMAT_TORCH_SCRIPT_H
#define FORMAT_TORCH_SCRIPT_H

#include "format/format.h"

/* script_json_top - the folder with model.json and tensors, if Z is one of those. */
bool script_json_top(const zip *z, ckpt_str *top);
ckpt_status script_json_read(ckpt_file *f, ckpt_str top, ckpt_error *err);

#endif
