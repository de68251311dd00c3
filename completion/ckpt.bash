# bash completion of ckpt: its rules come from the program, so they are those of the version that runs.
_ckpt_rules=$(ckpt completion bash 2>/dev/null) && eval "$_ckpt_rules"
unset _ckpt_rules
