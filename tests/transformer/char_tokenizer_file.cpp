// Files of character tokenizers are written and read back; damaged files throw.
#include <tinytorch/transformer/char_tokenizer_file.hpp>

#include <io/files.hpp>
#include <support/errors.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using tt::CharTokenizer;
using tt::CharUnit;

TEST_CASE("tokenizers of any bytes are read back equal") {
  for (const std::string& text : golden::awkward_bytes()) {
    for (const CharUnit unit : {CharUnit::code_point, CharUnit::byte}) {
      const CharTokenizer t = CharTokenizer::from_text(text, unit);
      CHECK(tt::parse_char_tokenizer(tt::as_bytes(to_json(t))) == t);
    }
  }
}

TEST_CASE("files are written and read back, and damaged files throw") {
  const files::TempFolder folder;
  const CharTokenizer t = CharTokenizer::from_text("to be, \xc3\xa4\xff", CharUnit::code_point);
  tt::save_char_tokenizer(folder / "chars.json", t);
  CHECK(tt::load_char_tokenizer(folder / "chars.json") == t);
  CHECK(folder.count() == 1);
  const std::string text = to_json(t).substr(0, to_json(t).size() - 1);  // a missing line end is not an error
  const auto bytes = tt::as_bytes(text);
  const auto parse = [](tt::Bytes b) { tt::parse_char_tokenizer(b); };
  files::check_cut_files({bytes.begin(), bytes.end()}, parse);
  CHECK(files::check_damaged_files({bytes.begin(), bytes.end()}, parse) > 100);

  const auto refused = [](const std::string& json) {
    return files::refusal_of([&] { tt::parse_char_tokenizer(tt::as_bytes(json), "chars.json"); }).text;
  };
  const auto with = [](const char* unit, const char* codes) {
    return std::string("{\"format\":\"tinytorch-char-tokenizer-1\",\"unit\":\"") + unit +
           "\",\"codes\":" + codes + "}";
  };
  CHECK(refused(with("byte", "[0,255]")) == "");
  CHECK(files::contains(refused(with("byte", "[256]")), "256 at position 0"));
  CHECK(files::contains(refused(with("code_point", "[5,5]")), "5 at position 1"));
  CHECK(files::contains(refused(with("code_point", "[55296]")), "no surrogates"));
  CHECK(files::contains(refused(with("code_point", "[\"a\"]")), "a string at position 0"));
  CHECK(files::contains(refused(with("word", "[]")), "'word'"));
  CHECK(files::contains(refused("[]"), "hint: save it with save_char_tokenizer"));
  CHECK(files::contains(refused("{"), "cannot read 'chars.json'"));
}
