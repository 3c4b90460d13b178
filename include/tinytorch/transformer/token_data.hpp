// Token files, and the batches for training and evaluating a language model.
//
//   write_token_file("train.bin", tokenizer, text, TokenWidth::u16);
//   const TokenFile file("train.bin", TokenWidth::u16);
//   RandomWindows train(file, {.batch_size = 12, .length = 1024, .seed = 1});
//   const Batch batch = *train.next();      // inputs i64 [B, T]; targets are the inputs shifted by one
//
// A token file is an array of uint16 or uint32, little-endian, as in nanoGPT. It is memory-mapped, so it may
// be larger than memory, and processes share it. Do not truncate a mapped file: a read past its new end
// terminates the program (SIGBUS). Batch n is a function of (seed, n), so a position is one number, saved as
// LoaderState.
#pragma once

#include <sys/mman.h>

#include <tinytorch/core/random.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/file_kind.hpp>
#include <tinytorch/layers/batch_source.hpp>
#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/tokenizer.hpp>

namespace tinytorch::inline TT_BUILD {

enum class TokenWidth : uint8_t { u16 = 2, u32 = 4 };  // bytes per token

// A read-only file of tokens. Copies share the mapping.
class TokenFile {
 public:
  // Throws TT-IO-01 if the file cannot be mapped, and TT-IO-03 if it is not a regular file, is empty, has a
  // size that is not a multiple of the width, or is a git-lfs pointer or a web page.
  TokenFile(const std::string& path, TokenWidth width, TT_LOC);

  int64_t size() const { return static_cast<int64_t>(mapping_->size() / static_cast<size_t>(width_)); }
  // Token i, in [0, size()).
  int64_t operator[](int64_t i) const {
    return width_ == TokenWidth::u16 ? at<uint16_t>(i) : at<uint32_t>(i);
  }
  const std::string& path() const { return path_; }

 private:
  class Mapping {
   public:
    Mapping(const void* begin, size_t bytes) : begin_(begin), bytes_(bytes) {}
    ~Mapping() {
      if (begin_) ::munmap(const_cast<void*>(begin_), bytes_);
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    size_t size() const { return bytes_; }
    Bytes bytes() const { return {static_cast<const std::byte*>(begin_), bytes_}; }

   private:
    const void* begin_;
    size_t bytes_;
  };
  template <class T>
  int64_t at(int64_t i) const {
    return static_cast<int64_t>(
        io::load<T>(mapping_->bytes(), static_cast<size_t>(i) * sizeof(T), std::endian::little));
  }

  std::string path_;
  TokenWidth width_;
  std::shared_ptr<const Mapping> mapping_;
};

// Writes a token file in pieces. The file gets its name on commit().
class TokenWriter {
 public:
  TokenWriter(const std::string& path, TokenWidth width, TT_LOC)
      : file_(path, loc), width_(width), loc_(loc) {}
  // Throws TT-TEXT-05 for a token that does not fit the width.
  void append(std::span<const int32_t> tokens);
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  TokenWidth width_;
  Loc loc_;
};

struct WindowOptions {
  int64_t batch_size = 32;  // B
  int64_t length = 256;     // T
  uint64_t seed = 0;        // for RandomWindows
  int64_t overlap = 0;      // for SequentialWindows: tokens that a window shares with the previous one
};

// Training batches: an endless sequence of windows at random positions. Batch n uses the blocks n * B to n *
// B + B - 1 of the seed's random stream.
class RandomWindows : public BatchSource {
 public:
  explicit RandomWindows(TokenFile data, WindowOptions options = {}, TT_LOC);
  inline std::optional<Batch> next() override;  // never nullopt
  // The position of the next batch; the epoch is always 0.
  LoaderState state() const override { return {0, batch_}; }
  inline void set_state(LoaderState state, TT_LOC) override;
  inline std::string signature() const override;
  const WindowOptions& options() const { return options_; }

 private:
  TokenFile data_;
  WindowOptions options_;
  int64_t batch_ = 0;
};

// Evaluation batches: consecutive windows in which each token except the file's first is a target exactly
// once. The last batch of full windows may have fewer rows; the remaining tokens are one shorter row at the
// very end. With `overlap`, each window but the first starts that many tokens earlier. The targets of these
// tokens are -100: they only provide context, so each counted target of such a window has at least `overlap`
// tokens of context.
class SequentialWindows : public BatchSource {
 public:
  explicit SequentialWindows(TokenFile data, WindowOptions options = {}, TT_LOC);
  int64_t batches_per_epoch() const;
  inline std::optional<Batch> next() override;
  LoaderState state() const override { return state_; }
  inline void set_state(LoaderState state, TT_LOC) override;
  inline std::string signature() const override;
  const WindowOptions& options() const { return options_; }

 private:
  int64_t step() const { return options_.length - options_.overlap; }
  int64_t full_windows() const {
    const int64_t targets = data_.size() - 1;
    return targets < options_.length ? 0 : (targets - options_.length) / step() + 1;
  }
  // The number of targets after the last full window.
  int64_t left_over() const {
    return data_.size() - 1 - (full_windows() > 0 ? full_windows() * step() + options_.overlap : 0);
  }
  Batch batch_of(const std::vector<int64_t>& starts, int64_t length) const;

  TokenFile data_;
  WindowOptions options_;
  LoaderState state_;
};

// ---------------------------------------------------------------------------------------------------------

inline TokenFile::TokenFile(const std::string& path, TokenWidth width, Loc loc) : path_(path), width_(width) {
  io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) io::fail_system("TT-IO-01", "read", path, loc);
  const auto bytes = static_cast<size_t>(info.st_size);
  const io::Source source{path, "a token file", loc};
  if (!S_ISREG(info.st_mode)) source.reject("a regular file, which can be mapped", "another kind of file");
  const void* begin = bytes == 0 ? nullptr : ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
  if (begin == MAP_FAILED) io::fail_system("TT-IO-01", "map", path, loc);
  mapping_ = std::make_shared<const Mapping>(begin, bytes);
  const io::FileKind* const kind = io::kind_of(mapping_->bytes());
  if (kind == &io::kGitLfsPointer || kind == &io::kWebPage) io::refuse_kind(*kind, source);
  if (bytes == 0 || bytes % static_cast<size_t>(width) != 0) {
    source.reject("one or more tokens of " + std::to_string(static_cast<int>(width)) + " bytes",
                  io::count_of(bytes, "bytes"), "TT-IO-03",
                  "write it with write_token_file, and with the same width");
  }
}

inline void TokenWriter::append(std::span<const int32_t> tokens) {
  const int64_t limit = width_ == TokenWidth::u16 ? 65536 : int64_t{1} << 31;
  std::vector<std::byte> bytes;
  bytes.reserve(tokens.size() * static_cast<size_t>(width_));
  for (const int32_t token : tokens) {
    if (token < 0 || token >= limit) {
      fail("TT-TEXT-05",
           "TokenWriter: token " + std::to_string(token) + " does not fit a file of tokens below " +
               std::to_string(limit) + "\n  hint: use TokenWidth::u32",
           loc_);
    }
    if (width_ == TokenWidth::u16) {
      io::append(bytes, static_cast<uint16_t>(token), std::endian::little);
    } else {
      io::append(bytes, static_cast<uint32_t>(token), std::endian::little);
    }
  }
  file_.write(Bytes(bytes));
}

// Encodes the text into a file. The old file is kept until the new one is complete.
inline void write_token_file(const std::string& path, const Tokenizer& tokenizer, std::string_view text,
                             TokenWidth width, TT_LOC) {
  TokenWriter writer(path, width, loc);
  writer.append(tokenizer.encode(text, loc));
  writer.commit();
}

namespace token_data {

inline void check(const char* who, const TokenFile& data, const WindowOptions& options, int64_t least,
                  Loc loc) {
  if (options.batch_size < 1 || options.length < 1)
    fail("TT-TEXT-05", std::string(who) + ": batch_size and length must be at least 1", loc);
  if (data.size() < least) {
    fail("TT-TEXT-05",
         std::string(who) + ": '" + data.path() + "' has " + std::to_string(data.size()) +
             " tokens, at least " + std::to_string(least) +
             " are needed: a window and the token after it\n  hint: use a smaller length",
         loc);
  }
}

inline std::string describe(const TokenFile& data, const WindowOptions& options) {
  return "windows of " + std::to_string(options.length) + ", batches of " +
         std::to_string(options.batch_size) + ", of " + std::to_string(data.size()) + " tokens";
}

// The inputs are rows of `length` tokens from each start, the targets are the same rows shifted by one: i64
// [starts, length].
inline Batch windows(const TokenFile& data, const std::vector<int64_t>& starts, int64_t length) {
  const Shape shape{static_cast<int64_t>(starts.size()), length};
  Batch batch{empty(shape, DType::i64, cpu), empty(shape, DType::i64, cpu)};
  auto* inputs = batch.inputs.data<int64_t>();
  auto* targets = batch.targets.data<int64_t>();
  for (const int64_t start : starts) {
    for (int64_t i = 0; i < length; ++i) {
      *inputs++ = data[start + i];
      *targets++ = data[start + i + 1];
    }
  }
  return batch;
}

}  // namespace token_data

inline RandomWindows::RandomWindows(TokenFile data, WindowOptions options, Loc loc)
    : data_(std::move(data)), options_(options) {
  token_data::check("RandomWindows", data_, options_, options_.length + 1, loc);
}

inline std::string RandomWindows::signature() const {
  return "random " + token_data::describe(data_, options_) + ", seed " + std::to_string(options_.seed);
}

inline std::optional<Batch> RandomWindows::next() {
  Generator generator;
  generator.set_state(
      {options_.seed, static_cast<uint64_t>(batch_) * static_cast<uint64_t>(options_.batch_size)});
  std::vector<int64_t> starts(static_cast<size_t>(options_.batch_size));
  const auto places = static_cast<uint64_t>(data_.size() - options_.length);
  for (int64_t& start : starts) start = static_cast<int64_t>(generator.below(places));
  batch_ += 1;
  return token_data::windows(data_, starts, options_.length);
}

inline void RandomWindows::set_state(LoaderState state, Loc loc) {
  if (state.epoch != 0 || state.batch < 0) {
    fail("TT-TEXT-05",
         "RandomWindows: epoch " + std::to_string(state.epoch) + ", batch " + std::to_string(state.batch) +
             " is not a position of this source\n  hint: use a position that state() returned",
         loc);
  }
  batch_ = state.batch;
}

inline SequentialWindows::SequentialWindows(TokenFile data, WindowOptions options, Loc loc)
    : data_(std::move(data)), options_(options) {
  token_data::check("SequentialWindows", data_, options_, 2, loc);
  if (options_.overlap < 0 || options_.overlap >= options_.length)
    fail("TT-TEXT-05", "SequentialWindows: overlap must be at least 0 and below length", loc);
}

inline int64_t SequentialWindows::batches_per_epoch() const {
  return ceil_div(full_windows(), options_.batch_size) + (left_over() > 0 ? 1 : 0);
}

inline std::string SequentialWindows::signature() const {
  const std::string overlap = options_.overlap > 0 ? ", overlap " + std::to_string(options_.overlap) : "";
  return "sequential " + token_data::describe(data_, options_) + overlap;
}

inline std::optional<Batch> SequentialWindows::next() {
  if (state_.batch >= batches_per_epoch()) {
    state_ = {state_.epoch + 1, 0};
    return std::nullopt;
  }
  const int64_t first = state_.batch * options_.batch_size;
  const int64_t rows = std::min(options_.batch_size, full_windows() - first);
  state_.batch += 1;
  if (rows <= 0) {
    const int64_t start = full_windows() * step();
    return batch_of({start}, data_.size() - 1 - start);
  }
  std::vector<int64_t> starts;
  for (int64_t row = 0; row < rows; ++row) starts.push_back((first + row) * step());
  return batch_of(starts, options_.length);
}

inline Batch SequentialWindows::batch_of(const std::vector<int64_t>& starts, int64_t length) const {
  Batch batch = token_data::windows(data_, starts, length);
  auto* targets = batch.targets.data<int64_t>();
  for (const int64_t start : starts) {
    if (start > 0) std::fill_n(targets, options_.overlap, int64_t{-100});
    targets += length;
  }
  return batch;
}

inline void SequentialWindows::set_state(LoaderState state, Loc loc) {
  if (state.epoch < 0 || state.batch < 0 || state.batch > batches_per_epoch()) {
    fail("TT-TEXT-05",
         "SequentialWindows: epoch " + std::to_string(state.epoch) + ", batch " +
             std::to_string(state.batch) + " is outside an epoch of " + std::to_string(batches_per_epoch()) +
             " batches",
         loc);
  }
  state_ = state;
}

}  // namespace tinytorch::inline TT_BUILD
