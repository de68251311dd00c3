# packaging/recipes.sh fills in what is between @ signs.
class Ckpt < Formula
  desc "Look inside, fix, convert and compare deep-learning checkpoints"
  homepage "@HOMEPAGE@"
  url "@URL@/ckpt-@VERSION@-source.tar.xz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "xxhash" => :build
  depends_on "cjson"
  depends_on "curl"
  depends_on "libarchive"
  depends_on "libzip"
  # lib/README.md lists what stands in the way of macOS.
  depends_on :linux
  depends_on "openssl@3"
  depends_on "zlib"

  def install
    system "make", "install", "PREFIX=#{prefix}", "ON_DEMAND="
  end

  test do
    header = '{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (testpath/"w.safetensors").binwrite([header.bytesize].pack("Q<") + header + ("\0" * 4))
    assert_match "float32", shell_output("#{bin}/ckpt ls w.safetensors")
  end
end
