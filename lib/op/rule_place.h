/* rule_place.h - where something is in the text of rules, for errors. */
#pragma once

#include "base/error.h"

/* Both count from 1. */
struct rule_place {
    uint32_t line, column;
};

/* rule_fail - fails as fail() does with CKPT_EUSAGE, at PLACE of the rules. */
ckpt_status rule_fail(struct rule_place place, ckpt_error *err, const char *fmt, ...) CKPT_PRINTF(3, 4);
/* place_if_failed - adds PLACE to ERR if ST is an error. Returns ST. */
ckpt_status place_if_failed(ckpt_status st, struct rule_place place, ckpt_error *err);
