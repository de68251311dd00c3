/* script.h - TorchScript of torch 1.0 to 1.3, which has no pickle. */
#ifndef FORMAT_TORCH_SCRIPT_H
#define FORMAT_TORCH_SCRIPT_H

#include "format/format.h"

/* script_json_top - is Z such an archive? Sets *TOP to the folder of its model.json. */
bool script_json_top(const zip *z, ckpt_str *top);
/* script_json_read - fills F from the archive of its probe, whose folder is TOP. */
ckpt_status script_json_read(ckpt_file *f, ckpt_str top, ckpt_error *err);

#endif
