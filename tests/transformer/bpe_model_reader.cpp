// The spelling of bytes in vocabulary files, and the reader that builds a model from them.
#include <tinytorch/transformer/bpe_model_reader.hpp>

#include <io/files.hpp>
#include <support/errors.hpp>

namespace tt = tinytorch;

TEST_CASE("bytes have GPT-2's spelling") {
  CHECK(tt::bpe::spelled(" a\n") ==
        "\xc4\xa0"
        "a"
        "\xc4\x8a");
  CHECK(tt::bpe::spelled("!~") == "!~");
  CHECK(tt::bpe::spelled("\xad\xff") == "\xc5\x83\xc3\xbf");
  std::string all;
  for (int b = 0; b < 256; ++b) all += static_cast<char>(b);
  CHECK(tt::bpe::unspelled(tt::bpe::spelled(all)) == all);
  CHECK(!tt::bpe::unspelled(" "));
  CHECK(!tt::bpe::unspelled("\xe2\x82\xac"));
  CHECK(!tt::bpe::unspelled("\xff"));
}

TEST_CASE("ModelReader builds a model from tokens and merges; an error names its file") {
  const tt::io::Source vocabulary{"v", "a vocabulary", tt::Loc::current()},
      merges{"m", "merges", tt::Loc::current()};
  const auto number = [](int64_t n) { return tt::Json(tt::Json::Number{static_cast<double>(n), n}); };
  const auto with_bytes = [&] {
    tt::bpe::ModelReader reader(vocabulary, merges);
    for (int b = 0; b < 256; ++b)
      reader.add(tt::bpe::spelled(std::string(1, static_cast<char>(b))), number(b));
    return reader;
  };
  tt::bpe::ModelReader reader = with_bytes();
  reader.add("ab", number(256));
  reader.add_special("\xe2\x82\xac", number(300));
  reader.add_special("ab", number(256));
  reader.add_merge("a b", "line", 1);
  const tt::BpeModel model = reader.finish();
  CHECK(model.tokens.size() == 301);
  CHECK(model.tokens[299].empty());
  CHECK(model.merges == std::vector<tt::BpeMerge>{{'a', 'b'}});
  CHECK(model.specials == std::map<std::string, int32_t>{{"ab", 256}, {"\xe2\x82\xac", 300}});

  const auto refused = [&](auto&& change) {
    tt::bpe::ModelReader other = with_bytes();
    return files::refusal_of([&] {
             change(other);
             other.finish();
           })
        .text;
  };
  using Reader = tt::bpe::ModelReader;
  CHECK(files::contains(refused([&](Reader& r) { r.add("ab", number(7)); }), "cannot read 'v'"));
  CHECK(
      files::contains(refused([&](Reader& r) { r.add("\xe2\x82\xac", number(256)); }), "spelled in the 256"));
  CHECK(files::contains(refused([&](Reader& r) { r.add_special("a", number(300)); }),
                        "'a' with 300 in 'added_tokens' and 97 in 'vocab'"));
  CHECK(files::contains(refused([&](Reader& r) { r.add_special("ab", number(97)); }), "each number once"));
  CHECK(files::contains(refused([](Reader& r) { r.add_merge("a", "line", 3); }), "'a' in line 3"));
  CHECK(files::contains(refused([](Reader& r) { r.add_merge("a", "ab", "merge", 4); }), "'ab' in merge 4"));
  CHECK(files::contains(refused([](Reader& r) { r.add_merge("a", "ab", "merge", 4); }), "cannot read 'm'"));
}
