// Tests which settings of config.json the families read and refuse.
#include <tinytorch/transformer/family_file.hpp>

#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;

namespace {

const std::string kCommon =
    R"("vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 4, "num_attention_heads": 6, )"
    R"("num_key_value_heads": 2, "intermediate_size": 20)";

tt::DecoderConfig config_of(const std::string& type, const std::string& more) {
  return std::get<tt::DecoderConfig>(tt::parse_hugging_face_config(
      tt::as_bytes("{\"model_type\": \"" + type + "\", " + kCommon + more + "}"), "config.json"));
}
std::string refused(const std::string& type, const std::string& more) {
  return refusal_of([&] { config_of(type, more); }).text;
}

}  // namespace

TEST_CASE("keys that a family leaves out have the defaults of transformers") {
  CHECK(config_of("mistral", "").window == 4096);
  CHECK(config_of("mistral", "").context == 131072);
  CHECK(config_of("mistral", R"(, "sliding_window": null)").window == 0);
  const tt::DecoderConfig qwen = config_of("qwen2", R"(, "sliding_window": 8)");
  CHECK((qwen.qkv_bias && qwen.window == 0 && qwen.head_size == 2));
  const tt::DecoderConfig late =
      config_of("qwen2", R"(, "sliding_window": 8, "use_sliding_window": true, "max_window_layers": 3)");
  CHECK(late.window == 8);
  CHECK(late.sliding == std::vector<bool>{false, false, false, true});
  CHECK(config_of("qwen3", "").head_size == 128);
  CHECK(config_of("phi3", "").eps == 1e-5);
  const tt::DecoderConfig gemma2 = config_of("gemma2", "");
  CHECK((gemma2.attention_cap == 50 && gemma2.logit_cap == 30 && gemma2.tied && gemma2.norm_offset == 1));
  CHECK(gemma2.attention_scale == 1.0 / 16);
  CHECK(gemma2.sliding == std::vector<bool>{true, false, true, false});
  CHECK(config_of("gemma2", R"(, "attn_logit_softcapping": null)").attention_cap == 0);
  const tt::DecoderConfig gemma3 =
      config_of("gemma3_text", R"(, "sliding_window_pattern": 4, "rope_local_base_freq": 70.0,)"
                               R"( "rope_scaling": {"rope_type": "linear", "factor": 8})");
  CHECK(gemma3.sliding == std::vector<bool>{true, true, true, false});
  CHECK(gemma3.sliding_rotary->theta == 70);
  CHECK(std::get<tt::LinearScaling>(gemma3.rotary.stretch).factor == 8);
  CHECK(gemma3.rotary.theta == 1000000);
}

TEST_CASE("settings that a family does not have are refused, never ignored") {
  CHECK(contains(refused("gemma2", R"(, "hidden_activation": "relu")"), "hidden_activation is 'relu'"));
  CHECK(contains(refused("qwen2", R"(, "hidden_act": "gelu")"), "hidden_act is 'gelu', supported: silu"));
  CHECK(contains(refused("gemma3_text", R"(, "use_bidirectional_attention": true)"),
                 "use_bidirectional_attention is true, supported: false"));
  CHECK(contains(refused("phi3", R"(, "resid_pdrop": 0.1)"), "resid_pdrop is not 0, supported: 0"));
  CHECK(
      contains(refused("phi3", R"(, "rope_scaling": {"type": "linear", "factor": 2})"), "default longrope"));
  CHECK(contains(refused("qwen3", R"(, "partial_rotary_factor": 0.5)"), "partial_rotary_factor is not 1"));
  CHECK(contains(refused("qwen3", R"(, "layer_types": ["full_attention"])"), "should have 4 entries"));
  CHECK(contains(refused("gemma2", R"(, "layer_types": ["a", "b", "c", "d"])"),
                 "a layer of layer_types is 'a'"));
  CHECK(contains(refused("gemma2", R"(, "sliding_window": null,)"
                                   R"( "layer_types": ["sliding_attention", "full_attention",)"
                                   R"( "full_attention", "full_attention"])"),
                 "there is no sliding_window"));
  CHECK(
      contains(refused("qwen2", R"(, "rope_scaling": {"type": "dynamic"})"), "factor of rope_type dynamic"));
  CHECK(contains(refused("qwen2", R"(, "rope_scaling": {"type": "dynamic", "factor": 2, "alpha": 3})"),
                 "alpha"));
  CHECK(
      contains(refused("qwen2", R"(, "rope_parameters": {"full_attention": {}})"), "for each kind of layer"));
  CHECK(contains(refused("qwen2", R"(, "rope_scaling": {"type": "longrope", "short_factor": [1, 2]})"),
                 "long_factor should be a list of numbers"));
  CHECK(contains(refused("qwen2", R"(, "rope_scaling": {"type": "yarn", "factor": 2, "beta_slow": 99})"),
                 "0 < beta_slow < beta_fast"));
  CHECK(contains(refusal_of([] {
                   tt::parse_hugging_face_config(
                       tt::as_bytes(R"({"model_type": "mistral", "vocab_size": 11, "hidden_size": 12,
                         "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 20})"));
                 }).text,
                 "num_key_value_heads should divide num_attention_heads"));  // its default is 8
  CHECK(contains(refused("gemma3", ""), "expected: model_type gpt2 llama mistral"));
  tt::DecoderConfig odd;
  odd.family = "bloom", odd.layers = 0, odd.vocabulary = 3, odd.features = 4, odd.heads = 2;
  const tt::Decoder model(odd);
  const files::TempFolder folder;
  CHECK(contains(refusal_of([&] { tt::save_hugging_face(model, folder / "m"); }).text, "no family 'bloom'"));
}
