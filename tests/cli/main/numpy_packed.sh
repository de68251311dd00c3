# Files of joblib and members of zip that are compressed by other methods than DEFLATE are read by libarchive.
numpy=corpus/numpy/np2
ckpt hash $numpy/hand/lzma.npz 2>&1 | grep -q libarchive && { echo 'libarchive is not here'; exit 77; }
ckpt ls $numpy/joblib/bz2.joblib
ckpt hash $numpy/hand/lzma.npz $numpy/hand/ok.npy
ckpt ls --max-expanded 100 $numpy/joblib/xz.joblib
