/* doctor.h - for `ckpt doctor`: what loading a file that can be read will stumble over. */
#ifndef OP_DOCTOR_H
#define OP_DOCTOR_H

#include "core/doctor.h"

/* doctor_failed_save - is all that is left what torch.save writes last? */
bool doctor_failed_save(const struct check *c, const ckpt_file *f);
/* doctor_damage - what verifying found, C being done; not what doctor_truncated tells. */
ckpt_status doctor_damage(struct doctor *d, const struct check *c, const ckpt_file *f, ckpt_error *err);
/* doctor_loading - what torch.load and load_state_dict will say to F. */
ckpt_status doctor_loading(struct doctor *d, const struct check *c, ckpt_file *f, ckpt_error *err);

#endif
