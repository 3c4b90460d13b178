// config.json: both model types, both forms of rotary options, errors, and writing.
#include <tinytorch/transformer/hugging_face_config.hpp>

#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::contains;

namespace {

const std::string kGpt2 =
    R"({"model_type": "gpt2", "vocab_size": 11, "n_positions": 12, "n_embd": 6, "n_layer": 2, "n_head": 3)";
const std::string kLlama =
    R"({"model_type": "llama", "vocab_size": 11, "hidden_size": 12, "num_hidden_layers": 2,)"
    R"( "num_attention_heads": 6, "intermediate_size": 20)";

tt::Gpt2Config gpt2(const std::string& more) {
  return std::get<tt::Gpt2Config>(tt::parse_hugging_face_config(tt::as_bytes(kGpt2 + more + "}")));
}
tt::LlamaConfig llama(const std::string& more) {
  return std::get<tt::LlamaConfig>(tt::parse_hugging_face_config(tt::as_bytes(kLlama + more + "}")));
}
std::string with_vocabulary(std::string text, int64_t size) {
  const std::string key = "\"vocab_size\": 11";
  return text.replace(text.find(key), key.size(), "\"vocab_size\": " + std::to_string(size));
}
files::Refusal refused(const std::string& text) {
  return files::refusal_of([&] { tt::parse_hugging_face_config(tt::as_bytes(text), "config.json"); });
}
std::string golden_config(const std::string& name) {
  return tt::load_text(tinytorch_tree::kSourceFolder + std::string("/tests/golden/transformers/") + name +
                       "/config.json");
}

}  // namespace

TEST_CASE("gpt2: absent and null keys have the defaults of transformers") {
  const tt::Gpt2Config c = gpt2(R"(, "n_inner": null, "unknown": [1, {}])");
  CHECK(c.vocabulary == 11);
  CHECK(c.context == 12);
  CHECK(c.features == 6);
  CHECK(c.layers == 2);
  CHECK(c.heads == 3);
  CHECK(c.hidden == 0);
  CHECK(c.activation == tt::Activation::gelu_tanh);
  CHECK(c.tied);
  CHECK(c.residual_dropout == 0.1);
  CHECK(c.eps == 1e-5);
  CHECK(c.start_token == -1);  // the default 50256 is outside of this vocabulary
  CHECK(c.end_tokens.empty());
  const tt::Gpt2Config other = gpt2(
      R"(, "n_inner": 7, "activation_function": "relu", "tie_word_embeddings": false, "resid_pdrop": 0, )"
      R"("attn_pdrop": 0.25, "layer_norm_epsilon": 0.001, "bos_token_id": 4, "eos_token_id": [5, 6])");
  CHECK(other.hidden == 7);
  CHECK(other.activation == tt::Activation::relu);
  CHECK_FALSE(other.tied);
  CHECK(other.residual_dropout == 0);
  CHECK(other.attention_dropout == 0.25);
  CHECK(other.eps == 0.001);
  CHECK(other.start_token == 4);
  CHECK(other.end_tokens == std::vector<int64_t>{5, 6});
}

TEST_CASE("llama: groups, head size, and the rotary options of transformers 4 and 5") {
  const tt::LlamaConfig c = llama("");
  CHECK(c.groups == 6);
  CHECK(c.head_size == 2);
  CHECK(c.rotary.theta == 10000);
  CHECK_FALSE(c.rotary.scaling);
  CHECK_FALSE(c.tied);
  CHECK(llama(R"(, "num_key_value_heads": 2, "head_dim": 5)").head_size == 5);
  const std::string scaling =
      R"("rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3, )"
      R"("original_max_position_embeddings": 64)";
  const tt::LlamaConfig four = llama(R"(, "rope_theta": 500.0, "rope_scaling": {)" + scaling + "}");
  const tt::LlamaConfig five = llama(R"(, "rope_parameters": {"rope_theta": 500.0, )" + scaling + "}");
  for (const tt::LlamaConfig& config : {four, five}) {
    CHECK(config.rotary.theta == 500);
    REQUIRE(config.rotary.scaling);
    CHECK(*config.rotary.scaling == tt::Llama3Scaling{4, 1, 3, 64});
  }
  CHECK(llama(R"(, "rope_theta": 500.0, "rope_scaling": null)").rotary.theta == 500);
  CHECK(llama(R"(, "rope_parameters": {"rope_theta": 9, "rope_type": "default"})").rotary.theta == 9);
}

TEST_CASE("begin and end tokens: a number, a list, none, or the defaults of transformers") {
  using Ends = std::vector<int64_t>;
  const std::string large = with_vocabulary(kGpt2, 50257);
  const auto of = [&](const std::string& more) {
    return std::get<tt::Gpt2Config>(tt::parse_hugging_face_config(tt::as_bytes(large + more + "}")));
  };
  CHECK(of("").start_token == 50256);
  CHECK(of("").end_tokens == Ends{50256});
  CHECK(of(R"(, "bos_token_id": null, "eos_token_id": null)").start_token == -1);
  CHECK(of(R"(, "bos_token_id": null, "eos_token_id": null)").end_tokens.empty());
  CHECK(of(R"(, "eos_token_id": 7)").end_tokens == Ends{7});
  CHECK(of(R"(, "eos_token_id": [7, 8])").end_tokens == Ends{7, 8});
  CHECK(llama("").start_token == 1);
  CHECK(llama("").end_tokens == Ends{2});
  CHECK(llama(R"(, "eos_token_id": [3, 4])").end_tokens == Ends{3, 4});
}

TEST_CASE("generation_config.json overrides config.json") {
  using Ends = std::vector<int64_t>;
  const auto after = [](const std::string& generation) {
    tt::LlamaConfig c = llama(R"(, "bos_token_id": 4, "eos_token_id": 5)");
    tt::hugging_face::read_generation_config(tt::as_bytes(generation), c, "generation_config.json");
    return std::pair(c.start_token, c.end_tokens);
  };
  CHECK(after(R"({"do_sample": true, "temperature": NaN})") == std::pair(int64_t{4}, Ends{5}));
  CHECK(after("\xef\xbb\xbf{\"eos_token_id\": [6, 7]}") == std::pair(int64_t{4}, Ends{6, 7}));
  CHECK(after(R"({"bos_token_id": 1, "eos_token_id": 8})") == std::pair(int64_t{1}, Ends{8}));
  CHECK(after(R"({"eos_token_id": null})") == std::pair(int64_t{4}, Ends{}));
  for (const char* bad : {R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1.5]})", "[]", "<html>"}) {
    CAPTURE(bad);
    const auto r = files::refusal_of([&] { after(bad); });
    CHECK(r.code == "TT-IO-03");
    CHECK(contains(r.text, "generation_config.json"));
  }
}

TEST_CASE("a byte order mark, NaN and Infinity are read, but throw as the value of a used key") {
  CHECK(std::get<tt::Gpt2Config>(tt::parse_hugging_face_config(tt::as_bytes("\xef\xbb\xbf" + kGpt2 + "}")))
            .heads == 3);
  CHECK(gpt2(R"(, "scale": NaN, "limits": [-Infinity, Infinity])").heads == 3);
  const auto r = refused(kLlama + R"(, "rope_theta": Infinity, "rms_norm_eps": NaN})");
  CHECK(r.code == "TT-IO-03");
  CHECK(contains(r.text, "rope_theta should be a finite number, found NaN or Infinity"));
  CHECK(contains(r.text, "rms_norm_eps should be a finite number"));
  CHECK(contains(refused("<!doctype html><html></html>").text, "found:    a web page"));
}

TEST_CASE("one message names all unsupported settings") {
  const auto r = refused(kGpt2 + R"(, "activation_function": "mish", "scale_attn_by_inverse_layer_idx": true,
                                     "add_cross_attention": true, "scale_attn_weights": false})");
  CHECK(r.code == "TT-IO-04");
  CHECK(contains(r.text, "cannot build the model that 'config.json' describes"));
  CHECK(contains(
      r.text, "activation_function is 'mish', supported: gelu_new gelu_pytorch_tanh gelu relu silu swish"));
  CHECK(contains(r.text, "scale_attn_by_inverse_layer_idx is true, supported: false"));
  CHECK(contains(r.text, "add_cross_attention is true"));
  CHECK(contains(r.text, "scale_attn_weights is false, supported: true"));
  const auto l =
      refused(kLlama + R"(, "hidden_act": "gelu", "rope_scaling": {"type": "warp", "factor": 2}})");
  CHECK(l.code == "TT-IO-04");
  CHECK(contains(l.text, "hidden_act is 'gelu', supported: silu"));
  CHECK(contains(l.text, "rope_type is 'warp', supported: default llama3 linear dynamic yarn longrope"));
  const auto other = refused(R"({"model_type": "bloom"})");
  CHECK(other.code == "TT-IO-04");
  CHECK(contains(other.text,
                 "expected: model_type gpt2 llama mistral qwen2 qwen3 phi3 gemma gemma2 gemma3_text"));
  CHECK(contains(other.text, "'bloom'"));
  CHECK(refused("{}").code == "TT-IO-04");
}

TEST_CASE("missing keys and keys of a wrong type throw") {
  const auto r =
      refused(R"({"model_type": "gpt2", "vocab_size": 0, "n_positions": 2.5, "n_embd": "6", "n_layer": 2,
                            "attn_pdrop": "none", "tie_word_embeddings": 1, "eos_token_id": [1, "a"]})");
  CHECK(r.code == "TT-IO-03");
  for (const char* part :
       {"n_head is missing", "vocab_size should be an integer from 1", "n_positions should be",
        "n_embd should be", "attn_pdrop should be a finite number, found a string",
        "tie_word_embeddings should be true or false", "eos_token_id should be an integer"}) {
    CAPTURE(part);
    CHECK(contains(r.text, part));
  }
  CHECK(refused(kLlama + R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8}})").code == "TT-IO-03");
  CHECK(refused(kLlama + R"(, "rope_scaling": 3})").code == "TT-IO-03");
  CHECK(refused(kLlama + R"(, "rope_theta": 0})").code == "TT-IO-03");
  CHECK(refused("[]").code == "TT-IO-03");
  CHECK(refused(R"({"model_type": 5})").code == "TT-IO-03");
}

TEST_CASE("a written config is read back equal") {
  for (const char* name : {"gpt2_tied", "gpt2_untied_odd", "gpt2_bare"}) {
    const auto c = std::get<tt::Gpt2Config>(tt::parse_hugging_face_config(tt::as_bytes(golden_config(name))));
    const std::string text = tt::hugging_face::write_gpt2(c, tt::bf16);
    CHECK(contains(text, "\"torch_dtype\": \"bfloat16\""));
    const auto again = std::get<tt::Gpt2Config>(tt::parse_hugging_face_config(tt::as_bytes(text)));
    CHECK(tt::hugging_face::write_gpt2(again, tt::bf16) == text);
    CHECK(again.activation == c.activation);
    CHECK(again.hidden == c.hidden);
  }
  for (const char* name : {"llama_heads", "llama_grouped", "llama_scaled"}) {
    const auto c =
        std::get<tt::LlamaConfig>(tt::parse_hugging_face_config(tt::as_bytes(golden_config(name))));
    const std::string text = tt::hugging_face::write_llama(c, tt::f32);
    const auto again = std::get<tt::LlamaConfig>(tt::parse_hugging_face_config(tt::as_bytes(text)));
    CHECK(tt::hugging_face::write_llama(again, tt::f32) == text);
    CHECK(again.rotary.theta == c.rotary.theta);
    CHECK(again.rotary.scaling == c.rotary.scaling);
    CHECK(again.end_tokens == c.end_tokens);
    CHECK(again.start_token == c.start_token);
  }
}

TEST_CASE("truncated and damaged files throw") {
  const auto parse = [](tt::Bytes b) { tt::parse_hugging_face_config(b); };
  std::string text = golden_config("llama_scaled");
  text.pop_back();  // the final line break, which is not needed
  const tt::Bytes bytes = tt::as_bytes(text);
  files::check_cut_files({bytes.begin(), bytes.end()}, parse);
  CHECK(files::check_damaged_files({bytes.begin(), bytes.end()}, parse) > 500);
}
