# git keeps the texts of ls --text until the command line changes, so the line has the version of their form.
ckpt ls --text --text-version=1 data/train.pt | head -n 2
ckpt ls --text --text-version=2 data/train.pt
echo "exit code $?"
ckpt ls --text-version=1 data/train.pt
