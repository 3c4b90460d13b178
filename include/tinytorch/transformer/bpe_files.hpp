// Vocabulary files of byte-level BPE: reads GPT-2's pair of files, reads and writes Hugging Face's
// tokenizer.json.
//
//   encoder.json    {"token": number, ...}             vocab.bpe   a line "left right" per merge, by rank
//   tokenizer.json  {"added_tokens": [...], "pre_tokenizer": {...}, "model": {"type": "BPE", "vocab": {...},
//                   "merges": ["left right" or ["left", "right"], ...]}, "post_processor": {...}, ...}
//
// A part of a tokenizer.json that would change the tokens and is not implemented throws TT-IO-04: normalizers
// other than NFC, RoBERTa's post-processor, prefix spaces, other patterns. `truncation` and `padding` are
// settings of calls and are passed over. Every added token becomes a special token
// (SpecialPolicy in bpe.hpp), even if it is also an ordinary token of the vocabulary. The tokens that a
// TemplateProcessing puts around a text become BpeModel::before and after.
#pragma once

#include <tinytorch/transformer/tokenizer_json_writer.hpp>
#include <unordered_set>

namespace tinytorch::inline TT_BUILD {

// A token that is neither a byte nor the result of a merge is special: in GPT-2, <|endoftext|>. A special
// token never begins with a space, so such a token that does is a word whose merge is missing, and throws.
inline BpeModel parse_gpt2(Bytes encoder, Bytes merges, const std::string& encoder_name = "encoder.json",
                           const std::string& merges_name = "vocab.bpe", TT_LOC) {
  const io::Source source{encoder_name, "a GPT-2 vocabulary", loc}, list{merges_name, "GPT-2 merges", loc};
  const Json tree = parse_json(encoder, source);
  if (!tree.object()) bpe::reject_damaged(source, "an object of tokens and numbers", tree.kind());
  bpe::ModelReader reader(source, list);
  for (const auto& [name, number] : *tree.object()) reader.add(name, number);
  const std::vector<std::string> lines = split_lines(parse_text(merges, merges_name, loc));
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == 0 && lines[i].starts_with("#version")) continue;
    reader.add_merge(lines[i], "line", i + 1);
  }
  BpeModel& model = reader.model;
  std::unordered_set<std::string> made;
  for (const auto& [left, right] : model.merges)
    made.insert(model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)]);
  for (size_t i = 0; i < model.tokens.size(); ++i) {
    const std::string& token = model.tokens[i];
    if (token.size() < 2 || made.contains(token)) continue;
    if (token[0] == ' ')
      bpe::reject_damaged(list, "merges for all tokens but special ones", "none for " + io::in_quotes(token));
    model.specials[token] = static_cast<int32_t>(i);
  }
  return reader.finish();
}
inline BpeTokenizer load_gpt2_tokenizer(const std::string& encoder_path, const std::string& merges_path,
                                        TT_LOC) {
  return BpeTokenizer(
      parse_gpt2(read_file(encoder_path, JsonLimits{}.bytes, loc),
                 read_file(merges_path, JsonLimits{}.bytes, loc), encoder_path, merges_path, loc),
      loc);
}
[[deprecated(
    "since 0.1.0: call load_gpt2_tokenizer(encoder, merges); load_gpt2 ends with 0.2.0")]] inline BpeTokenizer
load_gpt2(const std::string& encoder_path, const std::string& merges_path, TT_LOC) {
  return load_gpt2_tokenizer(encoder_path, merges_path, loc);
}

inline BpeModel parse_tokenizer_json(Bytes bytes, const std::string& name = "tokenizer.json", TT_LOC) {
  const io::Source source{name, "tokenizer.json", loc};
  return bpe::TokenizerJsonReader(source).run(parse_json(bytes, source));
}
inline BpeTokenizer load_tokenizer_json(const std::string& path, TT_LOC) {
  return BpeTokenizer(parse_tokenizer_json(read_file(path, JsonLimits{}.bytes, loc), path, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
