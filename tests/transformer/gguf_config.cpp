// Metadata of GGUF to and from configs: every key, settings that are not supported, the scaling of Llama 3.
#include <tinytorch/transformer/gguf_config.hpp>

#include <io/gguf_files.hpp>

namespace tt = tinytorch;
namespace gguf = tt::gguf;
using files::contains;
using files::refusal_of;

namespace {

// A file with metadata and the tensors that give sizes, without a model.
struct Described {
  tt::GgufContent content;
  std::vector<std::byte> bytes;
  tt::GgufFile open() {
    bytes = tt::to_gguf(content);
    return tt::parse_gguf(bytes, "x.gguf");
  }
  void tensor(const std::string& name, const tt::Shape& shape) {
    content.tensors.push_back(tt::gguf_tensor(name, tt::zeros(shape, tt::f32, tt::cpu)));
  }
};
// V = 9, context 7, C = 12, L = 2, H = 4, G = 2, D = 6, F = 10.
Described described(const std::string& name) {
  Described d;
  const auto put = [&](const char* key, uint32_t n) { d.content.metadata.set(name + key, n); };
  put(".context_length", 7), put(".embedding_length", 12), put(".block_count", 2);
  put(".feed_forward_length", 10), put(".attention.head_count", 4);
  d.tensor("token_embd.weight", {9, 12});
  const bool is_llama = name == "llama";
  if (is_llama) {
    put(".attention.head_count_kv", 2), put(".attention.key_length", 6);
    put(".attention.value_length", 6);
    d.content.metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  } else {
    d.content.metadata.set("gpt2.attention.layer_norm_epsilon", 1e-5f);
    d.tensor("position_embd.weight", {7, 12});
  }
  for (const char* layer : {"blk.0.", "blk.1."}) {
    d.tensor(layer + std::string("ffn_up.weight"), {10, 12});
    d.tensor(layer + std::string("attn_output.weight"), {12, is_llama ? 24 : 12});
  }
  return d;
}
files::Refusal llama_with(const std::string& key, const tt::GgufValue& value) {
  Described d = described("llama");
  d.content.metadata.set(key, value);
  return refusal_of([&] { gguf::read_llama(d.open(), tt::Loc::current()); });
}

}  // namespace

TEST_CASE("a float in a file gives the decimal number that was rounded to it") {
  for (const double x : {1e-5, 1e-6, 1e-12, 0.02, 10000.0, 500000.0, 2000.5, 1.0, -3.25e20})
    CHECK(gguf::decimal_of(static_cast<float>(x)) == x);
}

TEST_CASE("gpt2: sizes, eps, tokens") {
  Described d = described("gpt2");
  d.content.metadata.set("tokenizer.ggml.bos_token_id", uint32_t{3});
  d.content.metadata.set("tokenizer.ggml.eom_token_id", uint32_t{5});
  d.content.metadata.set("tokenizer.ggml.eos_token_id", uint32_t{4});
  d.content.metadata.set("tokenizer.ggml.eot_token_id", uint32_t{4});
  const tt::Gpt2Config c = gguf::read_gpt2(d.open(), tt::Loc::current());
  CHECK(c.vocabulary == 9);
  CHECK(c.context == 7);
  CHECK(c.features == 12);
  CHECK(c.layers == 2);
  CHECK(c.heads == 4);
  CHECK(c.hidden == 10);
  CHECK(c.eps == 1e-5);
  CHECK(c.tied);
  CHECK(c.start_token == 3);
  CHECK(c.end_tokens == std::vector<int64_t>{4, 5});
}

TEST_CASE("llama: sizes, the defaults of absent keys, biases, tied") {
  Described d = described("llama");
  tt::LlamaConfig c = gguf::read_llama(d.open(), tt::Loc::current());
  CHECK(c.vocabulary == 9);
  CHECK(c.groups == 2);
  CHECK(c.head_size == 6);
  CHECK(c.rotary.theta == 10000);
  CHECK(!c.rotary.scaling);
  CHECK(c.tied);
  CHECK(!c.attention_bias);
  CHECK(c.start_token == -1);
  CHECK(c.end_tokens.empty());
  d.tensor("output.weight", {9, 12});
  d.content.tensors.back() = tt::gguf_tensor("output.weight", tt::ones({9, 12}, tt::f32, tt::cpu));
  d.tensor("blk.0.attn_q.bias", {24}), d.tensor("blk.0.ffn_down.bias", {12});
  d.content.metadata.set("llama.rope.freq_base", 1e6f);
  c = gguf::read_llama(d.open(), tt::Loc::current());
  CHECK(!c.tied);
  CHECK(c.attention_bias);
  CHECK(c.mlp_bias);
  CHECK(c.rotary.theta == 1e6);
}

TEST_CASE("one error names all keys that are missing or wrong") {
  Described d = described("llama");
  d.content.metadata.set("llama.block_count", "two");
  d.content.metadata.set("llama.rope.freq_base", std::nanf(""));
  d.content.metadata.set("llama.feed_forward_length", std::vector<uint32_t>{10, 10});
  d.content.metadata.set("tokenizer.ggml.bos_token_id", 1.5f);
  const auto refusal = refusal_of([&] { gguf::read_llama(d.open(), tt::Loc::current()); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(contains(refusal.text, "llama.block_count should be an integer from 1 to 2^31, found string 'two'"));
  CHECK(contains(refusal.text, "llama.rope.freq_base should be a finite number"));
  CHECK(contains(refusal.text,
                 "llama.feed_forward_length should be an integer from 1 to 2^31, found u32[2] 10 10"));
  CHECK(contains(refusal.text, "bos_token_id should be an integer from 0, found f32 1.5"));
  Described empty;
  const auto missing = refusal_of([&] { gguf::read_gpt2(empty.open(), tt::Loc::current()); });
  for (const char* what : {"gpt2.block_count is missing", "token_embd.weight is missing",
                           "gpt2.attention.layer_norm_epsilon is missing"})
    CHECK(contains(missing.text, what));
}

TEST_CASE("settings that other models of llama.cpp have are refused unless they change nothing") {
  CHECK(llama_with("llama.rope.scaling.type", "none").code == "");
  CHECK(llama_with("llama.rope.scaling.type", "linear").code == "TT-IO-04");
  CHECK(llama_with("llama.rope.scaling.factor", 1.f).code == "");
  CHECK(llama_with("llama.rope.scaling.factor", 2.f).code == "TT-IO-04");
  CHECK(llama_with("llama.rope.dimension_count", uint32_t{6}).code == "");
  CHECK(llama_with("llama.rope.dimension_count", uint32_t{4}).code == "TT-IO-04");
  CHECK(llama_with("llama.attention.value_length", uint32_t{8}).code == "TT-IO-04");
  CHECK(llama_with("llama.expert_count", uint32_t{0}).code == "");
  CHECK(llama_with("llama.expert_count", uint32_t{8}).code == "TT-IO-04");
  CHECK(llama_with("llama.attention.causal", true).code == "");
  CHECK(llama_with("llama.attention.causal", false).code == "TT-IO-04");
  CHECK(llama_with("llama.logit_scale", 0.5f).code == "TT-IO-04");
  CHECK(llama_with("llama.attention.key_length", uint32_t{5}).code == "TT-IO-03");
  CHECK(llama_with("llama.attention.head_count_kv", uint32_t{3}).code == "TT-IO-03");
  CHECK(llama_with("llama.rope.freq_base", 0.f).code == "TT-IO-03");
}

TEST_CASE("the scaling of Llama 3 is recovered from its factors; others are refused") {
  // The formula of convert_hf_to_gguf.py, in double.
  const auto factors = [](double theta, int64_t D, double factor, double low, double high, double old) {
    std::vector<float> out;
    for (int64_t i = 0; i < D; i += 2) {
      const double wave =
          2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / static_cast<double>(D));
      const double smooth = (old / wave - low) / (high - low);
      out.push_back(static_cast<float>(wave < old / high  ? 1
                                       : wave > old / low ? factor
                                                          : 1 / ((1 - smooth) / factor + smooth)));
    }
    return out;
  };
  for (const auto& [theta, D, factor, old] : {std::tuple{500000.0, 128, 8.0, 8192},
                                              {500000.0, 64, 32.0, 8192},
                                              {2000.0, 10, 8.0, 32},
                                              {10000.0, 80, 4.0, 2048},
                                              {500000.0, 256, 16.0, 131072}}) {
    tt::RotaryOptions rotary{theta};
    REQUIRE(gguf::recover_scaling(factors(theta, D, factor, 1, 4, old), D, rotary));
    REQUIRE(rotary.scaling);
    CHECK(*rotary.scaling == tt::Llama3Scaling{factor, 1, 4, old});
    CHECK(gguf::rope_factors(D, rotary) ==
          gguf::rope_factors(D, {theta, tt::Llama3Scaling{factor, 1, 4, old}}));
  }
  // Between the frequencies that are kept and those that are divided there may be none: any length that parts
  // them is the same.
  tt::RotaryOptions apart{1e4};
  REQUIRE(gguf::recover_scaling({1, 8}, 4, apart));
  CHECK(gguf::rope_factors(4, apart) == std::vector<float>{1, 8});
  tt::RotaryOptions none{1e4};
  REQUIRE(gguf::recover_scaling({1, 1, 1}, 6, none));
  CHECK(!none.scaling);
  const auto refused = [](const std::vector<float>& f) {
    tt::RotaryOptions rotary{1e4};
    return !gguf::recover_scaling(f, 6, rotary);
  };
  CHECK(refused({1, 2}));
  CHECK(refused({8, 1, 1}));
  CHECK(refused({1, 2, 3}));
  CHECK(refused({1, std::nanf(""), 8}));
  CHECK(refused({0, 1, 8}));
  CHECK(refused({1, -1, 8}));
  CHECK(refused({1, 8, INFINITY}));
  tt::RotaryOptions other{1e4};  // several interpolated factors cannot be of the ratio 3 and of 4
  CHECK(!gguf::recover_scaling(factors(1e4, 64, 8, 1, 3, 4096), 64, other));
}

TEST_CASE("rope_freqs.weight must be F32, of half the head size, and of a form that is supported") {
  const auto with = [](const tt::Tensor& t) {
    Described d = described("llama");
    d.content.tensors.push_back(tt::gguf_tensor("rope_freqs.weight", t));
    return refusal_of([&] { gguf::read_llama(d.open(), tt::Loc::current()); });
  };
  CHECK(with(tt::ones({3}, tt::f32, tt::cpu)).code == "");
  CHECK(with(tt::ones({4}, tt::f32, tt::cpu)).code == "TT-IO-03");
  CHECK(with(tt::ones({3}, tt::f16, tt::cpu)).code == "TT-IO-03");
  const auto other = with(tt::from_data<float>({3, 2, 1}, {3}, tt::cpu));
  CHECK(other.code == "TT-IO-04");
  CHECK(contains(other.text, "rope_freqs.weight is of another form"));
}
