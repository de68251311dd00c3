# Files of joblib and members of zip that are compressed by other methods than DEFLATE are read by libarchive.
n=corpus/numpy/np2
ckpt hash $n/hand/lzma.npz 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls $n/joblib/bz2.joblib
ckpt hash $n/hand/lzma.npz $n/hand/ok.npy
ckpt ls --max-expanded 100 $n/joblib/xz.joblib
