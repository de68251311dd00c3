# rules.mk - rules for a Makefile with checkpoints: `include rules.mk`, then `make model.safetensors`. An output appears
# whole or not at all, so that an interrupted run leaves none that is newer than its input; -f replaces the one of an
# earlier run.
CKPT ?= ckpt

%.safetensors: %.pt
	$(CKPT) convert -q -f $< $@

%.gguf: %.safetensors
	$(CKPT) convert -q -f $< $@

# checked/NAME is newer than NAME if NAME is intact, and loading it runs no code
checked/%: %
	$(CKPT) verify -q $<
	$(CKPT) scan -q $<
	@mkdir -p $(@D) && touch $@
