// The metadata of GGUF files of GPT-2 and Llama, as llama.cpp names it, to and from the configs of our
// models.
//
//   general.architecture          gpt2 or llama; the other keys begin with it
//   .context_length .embedding_length .block_count .feed_forward_length .attention.head_count
//   .attention.layer_norm_epsilon (gpt2)
//   .attention.head_count_kv .attention.key_length .attention.layer_norm_rms_epsilon .rope.freq_base (llama)
//   tokenizer.ggml.bos_token_id, eos_token_id, eot_token_id, eom_token_id    the tokens of start and end
//
// Settings of llama.cpp that our models do not have, such as experts, throw, and so do sizes that the tensors
// in the file contradict: a damaged number never decides how much memory is taken. Llama 3's scaling of
// frequencies is no metadata but a tensor of factors, from which it is recovered.
//
// Source: gguf-py/gguf/constants.py and convert_hf_to_gguf.py, ggml-org/llama.cpp.
#pragma once

#include <charconv>
#include <set>
#include <tinytorch/io/gguf_write.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>
#include <tinytorch/transformer/model_problems.hpp>

namespace tinytorch::inline TT_BUILD::gguf {

inline constexpr const char* kEmbedding = "token_embd.weight";
inline constexpr const char* kPositions = "position_embd.weight";
inline constexpr const char* kHead = "output.weight";
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kStartKey = "tokenizer.ggml.bos_token_id";
inline constexpr const char* kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};

// The decimal number that was rounded to this float: 1e-05f is 9.99999974e-06, and gives 1e-05.
inline double decimal_of(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double out = value;
  std::from_chars(text, end, out);
  return out;
}

// True if the file has a head that differs from its token embedding. Old files of GPT-2 have a copy of it.
inline bool has_own_head(const GgufFile& file, Loc loc) {
  const GgufTensorInfo *head = file.find(kHead), *embedding = file.find(kEmbedding);
  if (!head || !embedding) return head != nullptr;
  return !(*head->type == *embedding->type) || !(head->shape == embedding->shape) ||
         file.bytes(*head, loc) != file.bytes(*embedding, loc);
}

// Typed access to the keys of one architecture. Errors are collected, and finish() throws all of them at
// once.
class KeyReader : public ModelProblems {
 public:
  KeyReader(const GgufFile& file, const std::string& architecture, Loc loc)
      : ModelProblems(file.name, loc), file_(file), prefix_(architecture + ".") {}

  const GgufValue* find(const std::string& key) const { return file_.metadata.find(prefix_ + key); }
  // Reads an integer from 1 to 2^31.
  int64_t size(const std::string& key) {
    if (!find(key)) malformed(prefix_ + key + " is missing");
    return size(key, 1);
  }
  int64_t size(const std::string& key, int64_t otherwise) {
    const GgufValue* found = find(key);
    if (!found) return otherwise;
    const std::optional<int64_t> n = found->integer();
    if (n && *n >= 1 && *n <= int64_t{1} << 31) return *n;
    malformed(prefix_ + key + " should be an integer from 1 to 2^31, found " + found->describe());
    return 1;
  }
  double real(const std::string& key, std::optional<double> otherwise = {}) {
    const GgufValue* found = find(key);
    if (!found && !otherwise) malformed(prefix_ + key + " is missing");
    if (!found) return otherwise.value_or(1);
    const std::optional<double> x = found->number();
    if (x && std::isfinite(*x))
      return found->type() == GgufValueType::f32 ? decimal_of(static_cast<float>(*x)) : *x;
    malformed(prefix_ + key + " should be a finite number, found " + found->describe());
    return 1;
  }
  // A setting that our models do not have: it must be absent, or have the value that changes nothing.
  void require_neutral(const std::string& key, double neutral) {
    const GgufValue* found = find(key);
    if (!found) return;
    const bool is_neutral =
        found->boolean() ? *found->boolean() == (neutral != 0) : found->number() == neutral;
    char text[32];
    std::snprintf(text, sizeof text, "%g", neutral);
    require(is_neutral, prefix_ + key, found->describe(), text);
  }
  // A tensor must be in the file with that shape.
  bool require_shape(const std::string& name, const Shape& shape) {
    const GgufTensorInfo* found = file_.find(name);
    const bool fits = found && found->shape == shape;
    if (!fits)
      malformed(name + " is " + (found ? found->shape.str() : "missing") + ", expected " + shape.str());
    return fits;
  }
  int64_t rows_of(const std::string& name) {
    const GgufTensorInfo* found = file_.find(name);
    if (found && found->shape.size() == 2) return found->shape[0];
    malformed(name + (found ? " is " + found->shape.str() + ", not a matrix" : " is missing"));
    return 1;
  }
  template <class Config>
  void read_text_tokens(Config& c) {
    const auto token = [&](const char* key) {
      const GgufValue* found = file_.metadata.find(key);
      const int64_t n = found ? found->integer().value_or(-1) : -1;
      if (found && n < 0)
        malformed(std::string(key) + " should be an integer from 0, found " + found->describe());
      return n;
    };
    c.start_token = token(kStartKey);
    for (const char* key : kEndKeys) {
      const int64_t n = token(key);
      if (n >= 0 && std::find(c.end_tokens.begin(), c.end_tokens.end(), n) == c.end_tokens.end())
        c.end_tokens.push_back(n);
    }
  }
  // Reads the sizes that both architectures have.
  template <class Config>
  void read_sizes(Config& c) {
    c.context = size("context_length"), c.features = size("embedding_length");
    c.layers = size("block_count"), c.heads = size("attention.head_count");
    c.hidden = size("feed_forward_length"), c.vocabulary = rows_of(kEmbedding);
  }
  // Checks sizes against the matrices of every layer, whose other matrices are at most three times as large.
  // `query` is the width of all heads together.
  template <class Config>
  void require_layers(const Config& c, int64_t query) {
    const bool fits = require_shape(kEmbedding, Shape{c.vocabulary, c.features});
    for (int64_t i = 0; fits && i < c.layers; ++i) {
      const std::string path = "blk." + std::to_string(i);
      if (!require_shape(path + ".ffn_up.weight", Shape{c.hidden, c.features}) ||
          !require_shape(path + ".attn_output.weight", Shape{c.features, query}))
        return;
    }
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

inline Gpt2Config read_gpt2(const GgufFile& file, Loc loc) {
  KeyReader in(file, "gpt2", loc);
  Gpt2Config c;
  in.read_sizes(c);
  c.eps = in.real("attention.layer_norm_epsilon");
  c.tied = !has_own_head(file, loc);
  in.read_text_tokens(c);
  if (c.features % c.heads != 0) in.malformed("gpt2.attention.head_count does not divide the features");
  in.require_shape(kPositions, {c.context, c.features});
  in.require_layers(c, c.features);
  in.finish();
  return c;
}

// Sets the scaling with which frequency i is divided by factors[i]. The thresholds of Llama 3.1 and its
// successors have the ratio 4; with it, one interpolated factor gives the original length. Returns false if
// no scaling of this form has these factors.
inline bool recover_scaling(const std::vector<float>& factors, int64_t head_size, RotaryOptions& rotary) {
  const std::vector<double> frequencies = Rotary(head_size, {rotary.theta}).frequencies();
  if (factors.size() != frequencies.size()) return false;
  const float largest = *std::max_element(factors.begin(), factors.end());
  Llama3Scaling s{
      .factor = decimal_of(largest), .low_freq_factor = 1, .high_freq_factor = 4, .original_positions = 1};
  constexpr double kTurn = 2 * std::numbers::pi;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double f = factors[i];
    if (!(f >= 1 && f <= 1e6)) return false;
    if (f == 1) s.original_positions = static_cast<int64_t>(std::min(1e15, 4 * kTurn / frequencies[i])) + 1;
    if (f == 1 || factors[i] == largest) continue;
    const double share = (1 / f - 1 / s.factor) / (1 - 1 / s.factor);
    s.original_positions =
        std::llround(std::min(1e15, (s.low_freq_factor + 3 * share) * kTurn / frequencies[i]));
    break;
  }
  if (largest > 1) rotary.scaling = s;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double exact = largest > 1 ? frequencies[i] / s.apply(frequencies[i]) : 1;
    if (!(std::abs(exact - factors[i]) <= 1e-5 * exact)) return false;
  }
  return true;
}
// The factors that a file states for the scaling: 1 for all frequencies without one.
inline std::vector<float> rope_factors(int64_t head_size, const RotaryOptions& rotary) {
  const Rotary plain(head_size, {rotary.theta});
  std::vector<float> out;
  for (const double frequency : plain.frequencies())
    out.push_back(static_cast<float>(rotary.scaling ? frequency / rotary.scaling->apply(frequency) : 1));
  return out;
}

inline void read_rotary(KeyReader& in, const GgufFile& file, LlamaConfig& c, Loc loc) {
  c.rotary.theta = in.real("rope.freq_base", 10000.0);
  if (!(c.rotary.theta > 0)) in.malformed("llama.rope.freq_base should be above 0");
  const int64_t turned = in.size("rope.dimension_count", c.head_size);
  in.require(turned == c.head_size, "llama.rope.dimension_count", std::to_string(turned),
             "the head size, " + std::to_string(c.head_size));
  if (const GgufValue* type = in.find("rope.scaling.type"))
    in.require(type->text() && *type->text() == "none", "llama.rope.scaling.type", type->describe(), "none");
  in.require_neutral("rope.scale_linear", 1), in.require_neutral("rope.scaling.factor", 1);
  in.require_neutral("rope.scaling.attn_factor", 1);
  const GgufTensorInfo* factors = file.find(kRopeFactors);
  if (!factors || c.head_size % 2 != 0 || c.head_size > 65536 || !(c.rotary.theta > 0)) return;
  if (!in.require_shape(kRopeFactors, {c.head_size / 2})) return;
  if (factors->type->name != std::string_view("F32"))
    return in.malformed(std::string(kRopeFactors) + " should be F32, found " + factors->type->name);
  in.require(recover_scaling(file.tensor(*factors, loc).to_vector<float>(), c.head_size, c.rotary),
             kRopeFactors, "of another form", "the scaling of Llama 3");
}

inline LlamaConfig read_llama(const GgufFile& file, Loc loc) {
  KeyReader in(file, "llama", loc);
  LlamaConfig c;
  in.read_sizes(c);
  c.groups = in.size("attention.head_count_kv", c.heads);
  c.head_size = in.size("attention.key_length", std::max<int64_t>(1, c.features / c.heads));
  const int64_t values = in.size("attention.value_length", c.head_size);
  in.require(values == c.head_size, "llama.attention.value_length", std::to_string(values), "the key_length");
  c.eps = in.real("attention.layer_norm_rms_epsilon");
  c.attention_bias = file.find("blk.0.attn_q.bias") != nullptr;
  c.mlp_bias = file.find("blk.0.ffn_down.bias") != nullptr;
  c.tied = !has_own_head(file, loc);
  in.read_text_tokens(c);
  read_rotary(in, file, c, loc);
  for (const char* key :
       {"expert_count", "expert_used_count", "attention.sliding_window", "attention.clamp_kqv"})
    in.require_neutral(key, 0);
  for (const char* key : {"attention.causal", "logit_scale", "embedding_scale", "residual_scale"})
    in.require_neutral(key, 1);
  if (c.heads % c.groups != 0) in.malformed("llama.attention.head_count_kv does not divide head_count");
  if (c.head_size % 2 != 0) in.malformed("llama.attention.key_length should be even, for rotary positions");
  in.require_layers(c, c.heads * c.head_size);
  in.finish();
  return c;
}

// --- writing ---

// The entries that both architectures have. tokenizer.ggml.model says that the file has no vocabulary; with
// it, llama.cpp runs the model on numbers of tokens.
template <class Config>
GgufMetadata write_sizes(const std::string& architecture, const Config& c, int64_t hidden, Loc loc) {
  GgufMetadata out;
  const auto put = [&](const char* key, int64_t n) { out.set(architecture + key, static_cast<uint32_t>(n)); };
  out.set("general.architecture", architecture);
  put(".context_length", c.context), put(".embedding_length", c.features), put(".block_count", c.layers);
  put(".feed_forward_length", hidden), put(".attention.head_count", c.heads);
  put(".vocab_size", c.vocabulary);
  out.set("tokenizer.ggml.model", "no_vocab");
  if (c.start_token >= 0) out.set(kStartKey, static_cast<uint32_t>(c.start_token));
  if (c.end_tokens.size() > std::size(kEndKeys)) {
    fail("TT-IO-02",
         "save_gguf: GGUF has keys for 3 end tokens, not for " + std::to_string(c.end_tokens.size()), loc);
  }
  for (size_t i = 0; i < c.end_tokens.size(); ++i)
    out.set(kEndKeys[i], static_cast<uint32_t>(c.end_tokens[i]));
  return out;
}

inline GgufMetadata write_gpt2(const Gpt2Config& c, Loc loc) {
  if (c.activation != Activation::gelu_tanh) {
    fail("TT-IO-02",
         "save_gguf: GGUF has no key for the activation of GPT-2; programs that read it use the tanh form of "
         "GELU\n  hint: save_hugging_face() keeps the activation",
         loc);
  }
  GgufMetadata out = write_sizes("gpt2", c, c.hidden > 0 ? c.hidden : 4 * c.features, loc);
  out.set("gpt2.attention.layer_norm_epsilon", static_cast<float>(c.eps));
  return out;
}

inline GgufMetadata write_llama(const LlamaConfig& c, Loc loc) {
  if (!std::holds_alternative<std::monostate>(c.rotary.stretch) || c.rotary.share != 1) {
    fail("TT-IO-02",
         "save_gguf: of the scalings of rotary frequencies, only that of Llama 3 can be written\n  hint: "
         "save_hugging_face() keeps all of them",
         loc);
  }
  GgufMetadata out = write_sizes("llama", c, c.hidden, loc);
  const int64_t head_size = c.head_size > 0 ? c.head_size : c.features / c.heads;
  const auto put = [&](const char* key, int64_t n) { out.set(key, static_cast<uint32_t>(n)); };
  put("llama.attention.head_count_kv", c.groups > 0 ? c.groups : c.heads);
  put("llama.attention.key_length", head_size), put("llama.attention.value_length", head_size);
  put("llama.rope.dimension_count", head_size);
  out.set("llama.attention.layer_norm_rms_epsilon", static_cast<float>(c.eps));
  out.set("llama.rope.freq_base", static_cast<float>(c.rotary.theta));
  RotaryOptions read{decimal_of(static_cast<float>(c.rotary.theta))};
  if (!recover_scaling(rope_factors(head_size, c.rotary), head_size, read) ||
      Rotary(head_size, read).frequencies() !=
          Rotary(head_size, {read.theta, c.rotary.scaling}).frequencies()) {
    fail("TT-IO-02",
         "save_gguf: only scalings of rotary frequencies with high_freq_factor = 4 low_freq_factor, as in "
         "Llama "
         "3, can be read back\n  hint: save_hugging_face() keeps all of them",
         loc);
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::gguf
