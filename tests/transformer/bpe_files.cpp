// Vocabulary files are read, written and read back equal. Damaged and unsupported files throw errors with
// name and place.
#include <tinytorch/transformer/bpe_files.hpp>

#include <tinytorch/transformer/bpe_trainer.hpp>

#include <io/files.hpp>
#include <support/data.hpp>
#include <support/errors.hpp>
#include <transformer/golden_strings.hpp>

namespace tt = tinytorch;
using files::contains;
using tt::BpeModel;

namespace {

const char* const kEncoder = "gpt2/encoder.json";

BpeModel learned(tt::SplitPattern pattern = tt::SplitPattern::gpt2) {
  return tt::train_bpe("abab abab \xc3\xa4\xc3\xa4 \"\\ \"\\ 12 12",
                       {.vocabulary = 265, .pattern = pattern, .specials = {"<|end|>", "<\xe2\x82\xac>"}});
}
BpeModel parse(const std::string& json) { return tt::parse_tokenizer_json(tt::as_bytes(json), "t.json"); }
files::Refusal refusal(const std::string& json) {
  return files::refusal_of([&] { parse(json); });
}
// Replaces one part of the text, which must be present.
std::string with(std::string text, const std::string& part, const std::string& other) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), other);
}

// The texts of encoder.json and vocab.bpe for a model.
std::pair<std::string, std::string> gpt2_files(const BpeModel& model) {
  std::string encoder = "{", merges = "#version: 0.2\n";
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const bool is_special = model.specials.contains(model.tokens[i]);
    encoder += (i ? ", " : "") +
               tt::to_json_string(is_special ? model.tokens[i] : tt::bpe::spelled(model.tokens[i])) + ": " +
               std::to_string(i);
  }
  for (const tt::BpeMerge& m : model.merges)
    merges += tt::bpe::spelled(model.tokens[static_cast<size_t>(m.left)]) + " " +
              tt::bpe::spelled(model.tokens[static_cast<size_t>(m.right)]) + "\n";
  return {encoder + "}", merges};
}

}  // namespace

TEST_CASE("tokenizer.json: a written model is read back equal and written again identically") {
  const files::TempFolder folder;
  for (const tt::SplitPattern pattern :
       {tt::SplitPattern::gpt2, tt::SplitPattern::cl100k, tt::SplitPattern::qwen2, tt::SplitPattern::o200k,
        tt::SplitPattern::digits, tt::SplitPattern::digit_runs}) {
    BpeModel model = learned(pattern);
    model.nfc = pattern == tt::SplitPattern::qwen2;
    model.ignore_merges = pattern == tt::SplitPattern::cl100k;
    model.tokens.insert(model.tokens.end(), 3, "");  // unused numbers
    model.tokens.push_back("<|far|>");
    const auto far = static_cast<int32_t>(model.tokens.size() - 1);
    model.specials["<|far|>"] = far;
    if (pattern == tt::SplitPattern::cl100k)
      model.before = {far, far}, model.after = {model.specials.at("<|end|>")};
    tt::save_tokenizer_json(folder / "tokenizer.json", model);
    CHECK(folder.count() == 1);
    const tt::BpeTokenizer loaded = tt::load_tokenizer_json(folder / "tokenizer.json");
    CHECK(loaded.model() == model);
    CHECK(tt::to_tokenizer_json(loaded.model()) == tt::to_tokenizer_json(model));
  }
}

TEST_CASE("tokenizer.json: the variants of other writers are read") {
  const BpeModel model = learned();
  const std::string json = tt::to_tokenizer_json(model);
  CHECK(parse(with(json, "[\"a\",\"b\"]", "\"a b\"")) == model);
  CHECK(parse(with(json, "\"ignore_merges\":false,", "")) == model);
  CHECK(parse(with(json, "\"version\":\"1.0\",\"truncation\":null,\"padding\":null,", "")) == model);
  CHECK(parse(with(json, "\"continuing_subword_prefix\":null", "\"continuing_subword_prefix\":\"\"")) ==
        model);
  CHECK(parse(with(json, "\"post_processor\":null", "\"post_processor\":{\"type\":\"ByteLevel\"}")) == model);
  // Settings of calls, which the library's encode() does not have.
  CHECK(parse(with(json, "\"truncation\":null", "\"truncation\":{\"max_length\":512}")) == model);
  CHECK(parse(with(json, "\"padding\":null", "\"padding\":{\"pad_id\":0}")) == model);
  BpeModel nfc = model;
  nfc.nfc = true;
  CHECK(parse(with(json, "\"normalizer\":null",
                   "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}")) == nfc);
  CHECK(parse(with(json, "\"normalizer\":null",
                   "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[]}")) == model);
  CHECK(parse(with(json, ",\"use_regex\":true", "")) == model);
  CHECK(parse(with(json, "\"type\":\"BPE\",", "")) == model);
  const size_t id = static_cast<size_t>(model.specials.at("<|end|>"));
  // Added tokens need not be in the vocabulary.
  CHECK(parse(with(json, ",\"<|end|>\":" + std::to_string(id), "")) == model);
  const BpeModel other = learned(tt::SplitPattern::cl100k);
  const std::string split = tt::to_tokenizer_json(other);
  CHECK(parse(with(split, "\"behavior\":\"Isolated\",\"invert\":false",
                   "\"behavior\":\"Removed\",\"invert\":true")) == other);
  for (const tt::bpe::KnownPattern& known : tt::bpe::kKnownPatterns) {
    const std::string changed =
        with(split, tt::to_json_string(tt::bpe::kKnownPatterns[2].text), tt::to_json_string(known.text));
    CHECK(parse(changed).pattern == known.pattern);
  }
}

TEST_CASE("tokenizer.json: an added token may be an ordinary token of the vocabulary, with the same number") {
  const BpeModel model = learned();
  const std::string json = tt::to_tokenizer_json(model);
  const auto number_of = [&](const std::string& bytes) {
    return static_cast<int32_t>(std::ranges::find(model.tokens, bytes) - model.tokens.begin());
  };
  const auto adding = [&](const std::string& text, int32_t number) {
    return with(json, "\"added_tokens\":[",
                "\"added_tokens\":[{\"id\":" + std::to_string(number) +
                    ",\"content\":" + tt::to_json_string(text) + "},");
  };
  // The cases are: the result of a merge that another merge uses, single bytes, and bytes that the vocabulary
  // spells differently.
  for (const std::string text : {"ab", "abab", "#", "\n", " "}) {
    CAPTURE(text);
    const int32_t number = number_of(text);
    REQUIRE(static_cast<size_t>(number) < model.tokens.size());
    BpeModel expected = model;
    expected.specials[text] = number;
    const BpeModel read = parse(adding(text, number));
    CHECK(read == expected);
    CHECK(parse(tt::to_tokenizer_json(read)) == expected);
    const tt::BpeTokenizer plain(model), added(read);
    const std::string sample = "x abab ab\xc3\xa4#\n12 " + text;
    CHECK(added.encode(sample) == plain.encode(sample));
    CHECK(added.encode(text, tt::SpecialPolicy::as_tokenizers()) == tt::Tokens{number});
    BpeModel whole = model, whole_added = read;
    whole.ignore_merges = whole_added.ignore_merges = true;
    CHECK(tt::BpeTokenizer(whole_added).encode(sample) == tt::BpeTokenizer(whole).encode(sample));

    const files::Refusal other = refusal(adding(text, 300));
    INFO(other.text);
    CHECK(other.code.starts_with("TT-IO-0"));
    CHECK((contains(other.text, "two for '") ||
           contains(other.text, "with 300 in 'added_tokens' and " + std::to_string(number))));
  }
  // "\u0120" spells a space, so as an added token it would also be the text U+0120.
  const std::string space = "\xc4\xa0";
  const files::Refusal r = refusal(adding(space, number_of(" ")));
  INFO(r.text);
  CHECK(r.code == "TT-IO-04");
  CHECK(contains(r.text, "which spells the bytes ' '"));
  CHECK(contains(r.text, "hint: take it out of 'added_tokens'"));
  // A letter that spells a byte and a word that merges produce are rejected in the same way.
  CHECK(contains(refusal(adding("\xc3\xa4", number_of("\xc3\xa4"))).text, "which spells the bytes '\\xe4'"));
  const std::string made = tt::bpe::spelled("\xc3\xa4");
  CHECK(contains(refusal(adding(made, number_of("\xc3\xa4"))).text, "which spells the bytes '\\xc3\\xa4'"));
}

TEST_CASE("tokenizer.json: the tokens that a post_processor puts around a text") {
  const BpeModel model = learned();
  const int32_t end = model.specials.at("<|end|>"), euro = model.specials.at("<\xe2\x82\xac>");
  const auto name = [&](int32_t token) {
    return tt::to_json_string(model.tokens[static_cast<size_t>(token)]);
  };
  const auto token = [&](int32_t t) { return "{\"SpecialToken\":{\"id\":" + name(t) + ",\"type_id\":0}}"; };
  const auto ids = [&](int32_t t, const std::string& numbers) {
    return name(t) + ":{\"id\":" + name(t) + ",\"ids\":[" + numbers + "],\"tokens\":[]}";
  };
  const std::string a = "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}";
  const auto processor = [&](const std::string& single, const std::string& end_ids) {
    return "{\"type\":\"TemplateProcessing\",\"single\":[" + single + "],\"pair\":[],\"special_tokens\":{" +
           ids(end, end_ids) + "," + ids(euro, std::to_string(euro)) + "}}";
  };
  const std::string json = tt::to_tokenizer_json(model), e = std::to_string(end);
  const auto file = [&](const std::string& post) {
    return with(json, "\"post_processor\":null", "\"post_processor\":" + post);
  };
  const auto around = [&](const std::string& post) {
    const BpeModel read = parse(file(post));
    CHECK(parse(tt::to_tokenizer_json(read)) == read);
    return std::pair(read.before, read.after);
  };
  using Around = std::pair<tt::Tokens, tt::Tokens>;
  const std::string byte_level = "{\"type\":\"ByteLevel\",\"trim_offsets\":false}";
  const auto sequence = [](const std::string& parts) {
    return "{\"type\":\"Sequence\",\"processors\":[" + parts + "]}";
  };
  CHECK(around(byte_level) == Around{});
  CHECK(around(sequence("")) == Around{});
  CHECK(around(processor(a, e)) == Around{});
  CHECK(around(processor(token(end) + "," + a, e)) == Around{{end}, {}});
  CHECK(around(processor(a + "," + token(euro) + "," + token(end), e)) == Around{{}, {euro, end}});
  CHECK(around(processor(token(end) + "," + a, e + "," + std::to_string(euro))) == Around{{end, euro}, {}});
  const std::string one = processor(token(end) + "," + a + "," + token(end), e),
                    two = processor(token(euro) + "," + a + "," + token(euro), e);
  CHECK(around(sequence(byte_level + "," + one + "," + two)) == Around{{euro, end}, {end, euro}});

  const auto damaged = [&](const std::string& post, const std::string& message) {
    const files::Refusal r = refusal(file(post));
    INFO(r.text);
    CHECK(r.code == "TT-IO-03");
    CHECK(contains(r.text, message));
  };
  damaged(processor(token(end), e), "none in 'single'");
  damaged(processor(a + "," + a, e), "a template of one text, A");
  damaged(processor(with(a, "\"A\"", "\"B\""), e), "a template of one text, A");
  damaged(processor("{}," + a, e), "the member 'SpecialToken'");
  damaged(processor("{\"SpecialToken\":{\"id\":\"x\"}}," + a, e), "the member 'x'");
  damaged(processor(token(end) + "," + a, "-1"), "the number of an added token");
  damaged(processor(token(end) + "," + a, "1.5"), "the number of an added token");
  damaged(processor(token(end) + "," + a, "7"), "special tokens around a text");
  damaged(processor(token(end) + "," + a, "1000000"), "special tokens around a text");
  damaged("{\"type\":\"TemplateProcessing\"}", "the member 'single'");
  damaged("{\"type\":\"Sequence\",\"processors\":{}}", "'processors' as an array");
}

TEST_CASE("tokenizer.json: settings that would give other tokens throw") {
  const std::string json = tt::to_tokenizer_json(learned()),
                    split = tt::to_tokenizer_json(learned(tt::SplitPattern::cl100k));
  const auto unsupported = [](const std::string& text, const std::string& part, const std::string& other,
                              const std::string& message) {
    const files::Refusal r = refusal(with(text, part, other));
    INFO(r.text);
    CHECK(r.code == "TT-IO-04");
    CHECK(contains(r.text, "cannot read 't.json'"));
    CHECK(contains(r.text, "hint: "));
    CHECK(contains(r.text, message));
  };
  unsupported(json, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}",
              "a normalizer of type 'NFKC'");
  unsupported(
      json, "\"normalizer\":null",
      "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]}",
      "a normalizer of type 'Lowercase'");
  unsupported(json, "\"type\":\"BPE\"", "\"type\":\"WordPiece\"", "model of type BPE");
  unsupported(json, "\"dropout\":null", "\"dropout\":0.1", "no 'dropout'");
  unsupported(json, "\"byte_fallback\":false", "\"byte_fallback\":true", "no 'byte_fallback'");
  unsupported(json, "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"",
              "no 'end_of_word_suffix'");
  unsupported(json, "\"post_processor\":null", "\"post_processor\":{\"type\":\"RobertaProcessing\"}",
              "post_processor of type ByteLevel or TemplateProcessing or Sequence");
  unsupported(json, "\"post_processor\":null",
              "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\"}]}",
              "type 'BertProcessing'");
  unsupported(json, "\"add_prefix_space\":false", "\"add_prefix_space\":true", "'add_prefix_space': false");
  unsupported(json, "\"use_regex\":true", "\"use_regex\":false", "'use_regex': true without a Split");
  unsupported(json, "\"type\":\"ByteLevel\"", "\"type\":\"Metaspace\"", "type 'Metaspace'");
  unsupported(json, "\"lstrip\":false", "\"lstrip\":true", "no 'lstrip'");
  unsupported(json, "{\"!\":0", "{\"\xe2\x96\x81\":0", "spelled in the 256 characters");
  unsupported(split, "p{N}{1,3}", "p{N}{1,4}", "the pattern of GPT-2, cl100k, Qwen 2 or o200k");
  unsupported(split, "\"Isolated\"", "\"MergedWithPrevious\"", "a Split that keeps the matches");
}

TEST_CASE("tokenizer.json: contradictions throw with their place") {
  const std::string json = tt::to_tokenizer_json(learned());
  const auto wrong = [&](const std::string& part, const std::string& other, const std::string& message) {
    const files::Refusal r = refusal(with(json, part, other));
    INFO(r.text);
    CHECK(r.code == "TT-IO-03");
    CHECK(contains(r.text, message));
    CHECK(contains(r.text, "hint: the file is truncated, damaged or edited"));
  };
  wrong("\"a\",\"b\"]", "\"a\",\"zz\"]", "'zz' in merge ");
  wrong("[\"a\",\"b\"]", "\"ab\"", "'ab' in merge ");
  wrong("[\"a\",\"b\"]", "\"a b c\"", "two tokens with one space");
  wrong("[\"a\",\"b\"]", "[\"a\"]", "an array as merge ");
  wrong("[\"a\",\"b\"]", "7", "a number as merge ");
  wrong("\"#\":2", "\"#\":1", "each number once");
  wrong("\"#\":2", "\"#\":-2", "-2 for token '#'");
  wrong("\"#\":2", "\"#\":2000000000", "2000000000 for token '#'");
  wrong("\"#\":2", "\"#\":\"2\"", "a string for token '#'");
  wrong("\"#\":2,", "", "none for byte '#'");
  wrong("\"<|end|>\":", "\"<|end|>\":1", "two for '<|end|>'");
  wrong("\"vocab\":{", "\"vocab\":[],\"x\":{", "'vocab' as an object");
  wrong("\"merges\":[", "\"merge\":[", "the member 'merges'");
  CHECK(contains(refusal("[]").text, "the member 'model'"));
  CHECK(contains(refusal("{\"a\":0,\"padding\":1,\"model\":2}").text,
                 "load_gpt2_tokenizer reads a vocab.json"));
  CHECK(contains(refusal("{\"model\":{}").text, "',' or '}'"));
  CHECK(parse("\xef\xbb\xbf" + json) == learned());
  CHECK(contains(refusal("version https://git-lfs.github.com/spec/v1\n").text, "git lfs pull"));
  CHECK(contains(refusal("<html></html>").text, "a web page"));
}

TEST_CASE("truncated and damaged files throw") {
  // The shortest possible vocabulary has the 256 bytes and one merge.
  const std::string json = tt::to_tokenizer_json(tt::train_bpe("abab", {.vocabulary = 257}));
  const std::string text = json.substr(0, json.size() - 1);
  for (size_t n = 0; n < text.size(); n += 7) CHECK(refusal(text.substr(0, n)).code.starts_with("TT-IO-"));
  int refused = 0;
  for (size_t i = 0; i < text.size(); i += 3) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ (i % 2 ? 0x01 : 0x80));
    const files::Refusal r = refusal(damaged);
    REQUIRE((r.code.empty() || r.code.starts_with("TT-IO-")));
    refused += !r.code.empty();
  }
  CHECK(refused > 500);
}

TEST_CASE("GPT-2's pair of files is read, and damaged pairs throw") {
  const BpeModel model =
      tt::train_bpe("abab abab abab \xc3\xa4\xc3\xa4", {.vocabulary = 265, .specials = {"<|endoftext|>"}});
  const auto [encoder, merges] = gpt2_files(model);
  const auto read = [](const std::string& vocabulary, const std::string& lines) {
    return tt::parse_gpt2(tt::as_bytes(vocabulary), tt::as_bytes(lines), "e.json", "v.bpe");
  };
  CHECK(read(encoder, merges) == model);
  CHECK(read(encoder, merges.substr(merges.find('\n') + 1)) == model);  // without the version line
  const auto refused = [&](const std::string& vocabulary, const std::string& lines) {
    return files::refusal_of([&] { read(vocabulary, lines); }).text;
  };
  CHECK(contains(refused(encoder, merges + "a\n"), "cannot read 'v.bpe'"));
  CHECK(contains(refused(encoder, merges + "a\n"), "'a' in line "));
  CHECK(contains(refused(encoder, merges + "a zz\n"), "'zz' in line "));
  CHECK(contains(refused(encoder, merges + "\xff b\n"), "cannot read 'v.bpe' as text"));
  CHECK(contains(refused(encoder, merges + "b b\n"), "a token for the result of each merge"));
  CHECK(read("\xef\xbb\xbf" + encoder, "\xef\xbb\xbf" + merges) == model);
  CHECK(contains(refused(encoder, "version https://git-lfs.github.com/spec/v1\n"), "cannot read 'v.bpe'"));
  CHECK(contains(refused(encoder, "version https://git-lfs.github.com/spec/v1\n"), "a git-lfs pointer"));
  // Merges that are missing would make words special tokens.
  CHECK(contains(refused(encoder, ""), "cannot read 'v.bpe'"));
  CHECK(contains(refused(encoder, ""), "none for ' ab"));
  std::string windows = merges;
  for (size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) windows.insert(at, "\r");
  CHECK(read(encoder, windows) == model);
  CHECK(contains(refused("", merges), "the end of the text"));
  CHECK(contains(refused("[]", merges), "cannot read 'e.json'"));
  CHECK(contains(refused(with(encoder, "\"#\": 2", "\"#\": 1"), merges), "cannot read 'e.json'"));
  CHECK(contains(refused(with(encoder, "\"#\": 2,", ""), merges), "none for byte '#'"));
  CHECK(contains(refused("{}", merges), "'a' in line 2"));
  test::expect_error("TT-IO-01", "No such file",
                     [] { tt::load_gpt2_tokenizer("no/encoder.json", "no/vocab.bpe"); });
}

TEST_CASE("special tokens that a file cannot represent throw when they are written") {
  BpeModel model = learned();
  model.specials["\xff\xff"] = static_cast<int32_t>(model.tokens.size());
  model.tokens.push_back("\xff\xff");
  test::expect_error("TT-IO-02", "is not UTF-8", [&] { tt::to_tokenizer_json(model); });
  model = learned();
  model.specials["\xc4\xa0"] =
      static_cast<int32_t>(model.tokens.size());  // the spelling of a space in a file
  model.tokens.push_back("\xc4\xa0");
  test::expect_error("TT-IO-02", "how the file spells another token", [&] { tt::to_tokenizer_json(model); });
  for (const auto& [text, message] :
       {std::pair("\xff", "is not UTF-8"), std::pair("\xc3\xa4", "spells another token")}) {
    model = learned();  // a model where both are ordinary tokens
    model.specials[text] = static_cast<int32_t>(std::ranges::find(model.tokens, text) - model.tokens.begin());
    test::expect_error("TT-IO-02", message, [&] { tt::to_tokenizer_json(model); });
  }
}

TEST_CASE("GPT-2's own files are written as a tokenizer.json and read back equal" *
          test::needs_data(kEncoder)) {
  const tt::BpeTokenizer gpt2 =
      tt::load_gpt2_tokenizer(test::data_file(kEncoder), test::data_file("gpt2/vocab.bpe"));
  CHECK(gpt2.model().specials == std::map<std::string, int32_t>{{"<|endoftext|>", 50256}});
  CHECK(gpt2.model().merges.size() == 50000);
  CHECK(parse(tt::to_tokenizer_json(gpt2.model())) == gpt2.model());
}
