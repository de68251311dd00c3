# Averaged copies, the prefix that most keys share, hyper-parameters before what a scheduler keeps.
eco=corpus/torch/t215/eco
ckpt info $eco/lightning_2.6.6.ckpt $eco/timm_last.pth.tar
ckpt info --json $eco/lightning_2.6.6.ckpt $eco/timm_last.pth.tar data/train.pt | grep -o '"mappings":.*"dtypes"'
