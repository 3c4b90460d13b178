// Token files and windows: a written file is mapped back, every token is served, and a resumed run continues
// exactly.
#include <tinytorch/transformer/token_data.hpp>

#include <numeric>
#include <set>
#include <tinytorch/transformer/char_tokenizer.hpp>

#include <io/files.hpp>
#include <support/errors.hpp>

namespace tt = tinytorch;
using tt::RandomWindows;
using tt::SequentialWindows;
using tt::TokenFile;
using tt::TokenWidth;

namespace {

// The tokens 0, 1, 2, ..., so that a token is its own position.
TokenFile ramp(const files::TempFolder& folder, int32_t count, TokenWidth width = TokenWidth::u16) {
  tt::Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  tt::TokenWriter writer(folder / "ramp.bin", width);
  writer.append(tokens);
  writer.commit();
  return TokenFile(folder / "ramp.bin", width);
}
std::vector<int64_t> values(const tt::Tensor& t) {
  return {t.data<int64_t>(), t.data<int64_t>() + t.numel()};
}

void check_shifted(const tt::Batch& batch) {
  CHECK(batch.inputs.dtype() == tt::i64);
  CHECK(batch.targets.shape() == batch.inputs.shape());
  const auto x = values(batch.inputs), y = values(batch.targets);
  const auto length = static_cast<size_t>(batch.inputs.size(1));
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(y[i] == x[i] + 1);
    if (i % length != 0) CHECK(x[i] == x[i - 1] + 1);
  }
}

}  // namespace

TEST_CASE("files contain the little-endian tokens and nothing else") {
  const files::TempFolder folder;
  for (const TokenWidth width : {TokenWidth::u16, TokenWidth::u32}) {
    tt::TokenWriter writer(folder / "t.bin", width);
    writer.append(tt::Tokens{1, 0x1234});
    writer.append(tt::Tokens{});
    writer.append(tt::Tokens{65535});
    CHECK(!std::filesystem::exists(folder / "t.bin"));  // no file before commit
    writer.commit();
    const auto bytes = tt::read_file(folder / "t.bin");
    const size_t step = static_cast<size_t>(width);
    REQUIRE(bytes.size() == 3 * step);
    CHECK(bytes[0] == std::byte{1});
    CHECK(bytes[step] == std::byte{0x34});
    CHECK(bytes[step + 1] == std::byte{0x12});
    const TokenFile file(folder / "t.bin", width);
    CHECK(file.size() == 3);
    CHECK(file[0] == 1);
    CHECK(file[1] == 0x1234);
    CHECK(file[2] == 65535);
    std::filesystem::remove(folder / "t.bin");
  }
  CHECK(folder.count() == 0);
}

TEST_CASE("write_token_file encodes a text into a file") {
  const files::TempFolder folder;
  const std::string text = "to be or not to be";
  const tt::CharTokenizer tokenizer = tt::CharTokenizer::from_text(text);
  tt::write_token_file(folder / "t.bin", tokenizer, text, TokenWidth::u16);
  const TokenFile file(folder / "t.bin", TokenWidth::u16);
  tt::Tokens tokens;
  for (int64_t i = 0; i < file.size(); ++i) tokens.push_back(static_cast<int32_t>(file[i]));
  CHECK(tokenizer.decode(tokens) == text);
}

TEST_CASE("tokens that do not fit the width throw and leave no file") {
  const files::TempFolder folder;
  const auto write = [&](TokenWidth width, int32_t token) {
    tt::TokenWriter writer(folder / "t.bin", width);
    writer.append(tt::Tokens{0, token});
  };
  test::expect_error("TT-TEXT-05",
                     "token 65536 does not fit a file of tokens below 65536\n  hint: use TokenWidth::u32",
                     [&] { write(TokenWidth::u16, 65536); });
  test::expect_error("TT-TEXT-05", "token -1", [&] { write(TokenWidth::u32, -1); });
  write(TokenWidth::u32, INT32_MAX);
  CHECK(folder.count() == 0);
}

TEST_CASE("files that cannot be mapped throw") {
  const files::TempFolder folder;
  tt::write_file(folder / "empty.bin", "");
  tt::write_file(folder / "odd.bin", "123");
  test::expect_error("TT-IO-01", "No such file", [&] { TokenFile f(folder / "none.bin", TokenWidth::u16); });
  test::expect_error("TT-IO-03", "0 bytes", [&] { TokenFile f(folder / "empty.bin", TokenWidth::u16); });
  test::expect_error("TT-IO-03", "one or more tokens of 2 bytes\n  found:    3 bytes",
                     [&] { TokenFile f(folder / "odd.bin", TokenWidth::u16); });
  tt::write_file(folder / "pointer.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:ab\n");
  test::expect_error("TT-IO-03", "a git-lfs pointer",
                     [&] { TokenFile f(folder / "pointer.bin", TokenWidth::u16); });
  test::expect_error("TT-IO-03", "a regular file", [&] { TokenFile f(folder / "", TokenWidth::u16); });
}

TEST_CASE("random windows: targets shifted by one, inside the file, from every position") {
  const files::TempFolder folder;
  RandomWindows windows(ramp(folder, 20), {.batch_size = 4, .length = 5, .seed = 3});
  std::set<int64_t> starts;
  for (int i = 0; i < 100; ++i) {
    const tt::Batch batch = *windows.next();
    CHECK(batch.inputs.shape() == tt::Shape{4, 5});
    check_shifted(batch);
    for (size_t row = 0; row < 4; ++row) starts.insert(values(batch.inputs)[row * 5]);
  }
  CHECK(starts.size() == 15);
  CHECK(*starts.begin() == 0);
  CHECK(*starts.rbegin() == 14);  // the last window's last target is the last token
}

TEST_CASE("random windows depend on the seed alone, and a run resumes exactly") {
  const files::TempFolder folder;
  const TokenFile file = ramp(folder, 1000, TokenWidth::u32);
  const tt::WindowOptions options{.batch_size = 3, .length = 8, .seed = 5};
  RandomWindows a(file, options), b(file, options), other(file, {.batch_size = 3, .length = 8, .seed = 6});
  for (int i = 0; i < 4; ++i) CHECK(values(a.next()->inputs) == values(b.next()->inputs));
  CHECK(values(a.next()->inputs) != values(other.next()->inputs));
  CHECK(a.signature() == "random windows of 8, batches of 3, of 1000 tokens, seed 5");
  CHECK(a.signature() != other.signature());
  const tt::LoaderState saved = a.state();
  CHECK(saved == tt::LoaderState{0, 5});
  const auto expected = values(a.next()->targets);
  RandomWindows resumed(file, options);
  resumed.set_state(saved);
  CHECK(values(resumed.next()->targets) == expected);
  test::expect_error("TT-TEXT-05", "epoch 1, batch 0", [&] { resumed.set_state({1, 0}); });
  test::expect_error("TT-TEXT-05", "batch -1", [&] { resumed.set_state({0, -1}); });
}

TEST_CASE("sequential windows: every token but the first is a target once, for all sizes") {
  const files::TempFolder folder;
  for (const int32_t count : {2, 3, 8, 9, 10, 25, 41}) {
    const TokenFile file = ramp(folder, count);
    for (const int64_t length : {1, 2, 4, 8, 50}) {
      for (const int64_t rows : {1, 2, 3, 100}) {
        SequentialWindows windows(file, {.batch_size = rows, .length = length});
        for (int epoch = 0; epoch < 2; ++epoch) {
          std::vector<int64_t> targets;
          int64_t batches = 0;
          while (const auto batch = windows.next()) {
            ++batches;
            check_shifted(*batch);
            for (const int64_t t : values(batch->targets)) targets.push_back(t);
          }
          CHECK(batches == windows.batches_per_epoch());
          std::vector<int64_t> expected(static_cast<size_t>(count) - 1);
          std::iota(expected.begin(), expected.end(), 1);
          CHECK(targets == expected);
        }
      }
    }
  }
}

TEST_CASE("overlapping windows: every token is a target once, with context from the previous window") {
  const files::TempFolder folder;
  for (const int32_t count : {2, 6, 7, 8, 9, 10, 11, 40}) {
    const TokenFile file = ramp(folder, count);
    for (const int64_t overlap : {1, 2, 4}) {
      SequentialWindows windows(file, {.batch_size = 2, .length = 5, .overlap = overlap});
      std::vector<int64_t> targets;
      int64_t batches = 0;
      while (const auto batch = windows.next()) {
        ++batches;
        const auto x = values(batch->inputs), y = values(batch->targets);
        const auto length = static_cast<size_t>(batch->inputs.size(1));
        for (size_t i = 0; i < x.size(); ++i) {
          const bool shared = x[i - i % length] > 0 && i % length < static_cast<size_t>(overlap);
          CHECK(y[i] == (shared ? -100 : x[i] + 1));
          if (!shared) targets.push_back(y[i]);
        }
      }
      CHECK(batches == windows.batches_per_epoch());
      std::vector<int64_t> expected(static_cast<size_t>(count) - 1);
      std::iota(expected.begin(), expected.end(), 1);
      CHECK(targets == expected);
    }
  }
  const TokenFile file = ramp(folder, 40);
  const tt::WindowOptions options{.length = 5, .overlap = 2};
  CHECK(SequentialWindows(file, options).signature() ==
        "sequential windows of 5, batches of 32, of 40 tokens, overlap 2");
  for (const int64_t wrong : {-1, 5}) {
    test::expect_error("TT-TEXT-05", "overlap must be",
                       [&] { SequentialWindows w(file, {.length = 5, .overlap = wrong}); });
  }
}

TEST_CASE("sequential windows resume exactly") {
  const files::TempFolder folder;
  const TokenFile file = ramp(folder, 100);
  const tt::WindowOptions options{.batch_size = 2, .length = 9};
  SequentialWindows a(file, options), b(file, options);
  for (int i = 0; i < 3; ++i) a.next();
  CHECK(a.state() == tt::LoaderState{0, 3});
  CHECK(a.signature() == "sequential windows of 9, batches of 2, of 100 tokens");
  b.set_state(a.state());
  while (const auto expected = a.next()) CHECK(values(b.next()->inputs) == values(expected->inputs));
  CHECK(!b.next());
  CHECK(b.state() == tt::LoaderState{1, 0});
  test::expect_error("TT-TEXT-05", "outside an epoch of 6 batches", [&] { b.set_state({0, 7}); });
}

TEST_CASE("invalid window options and positions throw") {
  const files::TempFolder folder;
  const TokenFile file = ramp(folder, 5);
  test::expect_error("TT-TEXT-05", "has 5 tokens, at least 6 are needed",
                     [&] { RandomWindows w(file, {.length = 5}); });
  test::expect_error("TT-TEXT-05", "must be at least 1", [&] { RandomWindows w(file, {.batch_size = 0}); });
  test::expect_error("TT-TEXT-05", "must be at least 1", [&] { SequentialWindows w(file, {.length = 0}); });
  RandomWindows least(file, {.batch_size = 1, .length = 4});
  CHECK(values(least.next()->targets) == std::vector<int64_t>{1, 2, 3, 4});
}

TEST_CASE("copies of a TokenFile share the mapping, which outlives the file name") {
  const files::TempFolder folder;
  std::optional<TokenFile> first = ramp(folder, 10);
  const TokenFile second = *first;
  first.reset();
  std::filesystem::remove(folder / "ramp.bin");
  CHECK(second[9] == 9);
}
