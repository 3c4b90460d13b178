// gzip decompression (RFC 1952) by zlib, with a limit on the output.
//
// Deflate expands by a factor of at most 1032, so the output is bounded by the input's size; the limit
// protects against large files that are made to fill the memory. Concatenated members are joined, as gzip
// does. Checksums and lengths are verified. Without TINYTORCH_WITH_ZLIB, every call throws an error that says
// how to enable it.
#pragma once

#include <tinytorch/io/file_kind.hpp>

#if TINYTORCH_WITH_ZLIB
#include <zlib.h>
#endif

namespace tinytorch::inline TT_BUILD {

inline constexpr uint64_t kGzipOutputLimit = uint64_t{1} << 36;  // 64 GiB

// True if the bytes begin like a gzip file.
inline bool is_gzip(Bytes bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

#if TINYTORCH_WITH_ZLIB

namespace io {

class Inflater {
 public:
  Inflater(Bytes input, uint64_t limit, const Source& source)
      : input_(input), limit_(limit), source_(source) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) source_.reject("memory for zlib", "none", "TT-IO-06");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::vector<std::byte> run() {
    do {
      run_member();
      inflateReset(&stream_);
    } while (consumed_ < input_.size());
    out_.resize(produced_);
    return std::move(out_);
  }

 private:
  static constexpr size_t kStep = size_t{1} << 30;  // zlib counts bytes in 32 bits

  void run_member() {
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      if (produced_ == out_.size()) grow();
      const size_t in = std::min(input_.size() - consumed_, kStep);
      const size_t room = std::min(out_.size() - produced_, kStep);
      // The pointer type of zlib's input is not const, but zlib does not write to it.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data() + consumed_));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data() + produced_);
      stream_.avail_out = static_cast<uInt>(room);
      status = inflate(&stream_, Z_NO_FLUSH);
      consumed_ += in - stream_.avail_in;
      produced_ += room - stream_.avail_out;
      if (produced_ > limit_) {
        source_.reject("at most " + count_of(limit_, "bytes") + " after decompression", "more", "TT-IO-06");
      }
      const bool starved = status == Z_BUF_ERROR || (status == Z_OK && consumed_ == input_.size());
      if (starved && produced_ < out_.size()) {
        source_.reject("the end of the compressed data",
                       "the end of the file after " + count_of(input_.size(), "bytes"));
      }
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        source_.reject("gzip data", "damage near byte " + std::to_string(consumed_) + " (" +
                                        (stream_.msg ? stream_.msg : "zlib error") + ")");
      }
    }
  }
  void grow() {
    const uint64_t first = std::max<uint64_t>(input_.size() * 4, 256);
    const uint64_t wanted = out_.empty() ? first : uint64_t{out_.size()} * 2;
    out_.resize(
        static_cast<size_t>(std::min(wanted, limit_ + 1)));  // one byte more than allowed reveals an excess
  }

  Bytes input_;
  uint64_t limit_;
  const Source& source_;
  z_stream stream_{};
  std::vector<std::byte> out_;
  size_t consumed_ = 0;
  size_t produced_ = 0;
};

}  // namespace io

// The decompressed bytes. Throws TT-IO-03 for damaged or truncated data, TT-IO-06 above `limit` bytes of
// output.
inline std::vector<std::byte> gunzip(Bytes bytes, const std::string& name = "gzip data",
                                     uint64_t limit = kGzipOutputLimit, TT_LOC) {
  const io::Source source{name, "gzip", loc};
  if (!is_gzip(bytes)) io::refuse_other_kind(bytes, source);
  source.expect(is_gzip(bytes), "a file that begins with 1f 8b", "other bytes");
  return io::Inflater(bytes, limit, source).run();
}

#else

inline std::vector<std::byte> gunzip(Bytes, const std::string& name = "gzip data",
                                     uint64_t = kGzipOutputLimit, TT_LOC) {
  fail("TT-IO-05",
       "cannot decompress '" + name +
           "': this program was built without zlib\n  hint: install zlib1g-dev and build with "
           "-DTINYTORCH_WITH_ZLIB=1 -lz, or run gunzip on the file first",
       loc);
}

#endif

}  // namespace tinytorch::inline TT_BUILD
