// Models from folders of GPTQ and AWQ against the same models in floats. The files are written here, word by
// word, from codes that were drawn.
#include <doctest/doctest.h>

#include <io/files.hpp>
#include <support/device.hpp>
#include <support/fresh.hpp>
#include <tinytorch/quantization/int4_model.hpp>

using namespace tinytorch;
using files::refusal_of;

namespace {

constexpr int64_t kGroupOfTest = 32;

// A weight [N, K] = scale (code - zero), and the tensors of a file that mean it.
struct DrawnInt4 {
  Tensor weight;
  TensorMap file;
};

struct Int4Case {
  Int4Layout layout = Int4Layout::gptq;
  bool symmetric = true;   // every zero point is 8
  bool act_order = false;  // groups lie anywhere in a row
};

std::mt19937_64& random_bits() {
  static std::mt19937_64 bits(test::Fresh().next());
  return bits;
}
int64_t below(int64_t n) { return static_cast<int64_t>(random_bits()() % static_cast<uint64_t>(n)); }

// `group_of` gives the group of each input.
DrawnInt4 draw_int4(int64_t N, int64_t K, const Int4Case& c, const std::vector<int32_t>& group_of) {
  const int64_t groups = K / kGroupOfTest;
  const auto at = [](int64_t i, int64_t width, int64_t j) { return static_cast<size_t>(i * width + j); };
  std::vector<float> scales(static_cast<size_t>(groups * N)), weight(static_cast<size_t>(N * K));
  std::vector<int> zeros(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<float>(1 + below(31)) / 512;  // exact in f16, as is scale * zero
    constexpr int kExact[] = {1, 2, 4, 8};
    zeros[i] = c.symmetric ? 8 : kExact[below(4)];
  }
  const bool awq = c.layout == Int4Layout::awq;
  std::vector<uint32_t> words(static_cast<size_t>(N * K / 8)),
      packed_zeros(static_cast<size_t>(groups * N / 8));
  constexpr int kOrderOfAwq[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // the code in bits 4 i
  const auto bits_of = [&](int64_t j) {
    if (!awq) return 4 * j;
    return int64_t{4} * (std::find(kOrderOfAwq, kOrderOfAwq + 8, static_cast<int>(j)) - kOrderOfAwq);
  };
  for (int64_t n = 0; n < N; ++n) {
    for (int64_t k = 0; k < K; ++k) {
      const int code = static_cast<int>(below(16));
      const size_t g = at(group_of[static_cast<size_t>(k)], N, n);
      weight[at(n, K, k)] = scales[g] * static_cast<float>(code - zeros[g]);
      if (awq)
        words[at(k, N / 8, n / 8)] |= static_cast<uint32_t>(code) << bits_of(n % 8);
      else
        words[at(k / 8, N, n)] |= static_cast<uint32_t>(code) << bits_of(k % 8);
    }
    for (int64_t g = 0; g < groups; ++g) {
      const int stored = zeros[at(g, N, n)] - (c.layout == Int4Layout::gptq ? 1 : 0);
      packed_zeros[at(g, N / 8, n / 8)] |= static_cast<uint32_t>(stored) << bits_of(n % 8);
    }
  }
  const auto tensor_of = [](const std::vector<uint32_t>& from, const Shape& shape) {
    return from_data(std::vector<int32_t>(from.begin(), from.end()), shape, cpu);
  };
  DrawnInt4 out{from_data(weight, {N, K}, cpu), {}};
  out.file["qweight"] = tensor_of(words, awq ? Shape{K, N / 8} : Shape{K / 8, N});
  out.file["qzeros"] = tensor_of(packed_zeros, {groups, N / 8});
  out.file["scales"] = from_data(scales, {groups, N}, cpu).to(DType::f16);
  if (!awq) out.file["g_idx"] = from_data(group_of, {K}, cpu);
  return out;
}

std::string settings_of(const Int4Case& c) {
  const std::string method = c.layout == Int4Layout::awq ? R"("quant_method": "awq", "version": "gemm",)"
                                                         : R"("quant_method": "gptq",)";
  return "{" + method + R"( "bits": 4, "group_size": 32, "zero_point": true, "sym": )" +
         (c.symmetric ? "true" : "false") + R"(, "desc_act": )" + (c.act_order ? "true" : "false") +
         (c.layout == Int4Layout::gptq_v2 ? R"(, "checkpoint_format": "gptq_v2")" : "") + "}";
}

// Replaces the weights of a saved model whose names `chosen` accepts: by codes in the folder `to`, and by the
// numbers that these mean in `from` itself.
void quantize_folder(const std::string& from, const std::string& to, const Int4Case& c, bool transposed,
                     const std::function<bool(const std::string&)>& chosen) {
  TensorMap floats = load_safetensors(from + "/model.safetensors"), packed;
  std::map<int64_t, std::vector<int32_t>> orders;  // one for each K, as q, k and v have one
  for (auto& [name, tensor] : floats) {
    if (!name.ends_with(".weight") || tensor.rank() != 2 || !chosen(name)) {
      packed.emplace(name, tensor);
      continue;
    }
    const int64_t N = tensor.size(transposed ? 1 : 0), K = tensor.size(transposed ? 0 : 1);
    std::vector<int32_t>& groups = orders[K];
    if (groups.empty()) {
      for (int64_t k = 0; k < K; ++k) groups.push_back(static_cast<int32_t>(k / kGroupOfTest));
      if (c.act_order) std::shuffle(groups.begin(), groups.end(), random_bits());
    }
    const DrawnInt4 drawn = draw_int4(N, K, c, groups);
    const std::string base = name.substr(0, name.size() - std::string("weight").size());
    for (const auto& [part, values] : drawn.file) packed.emplace(base + part, values);
    tensor = transposed ? drawn.weight.t().contiguous() : drawn.weight;
  }
  save_safetensors(from + "/model.safetensors", floats, {{"format", "pt"}});
  save_safetensors(to + "/model.safetensors", packed, {{"format", "pt"}});
}

template <class Model, class Config>
std::unique_ptr<Model> int4_test_model(const Config& config) {
  manual_seed(test::Fresh().next());
  auto model = std::make_unique<Model>(config);
  const NoGrad no_grad;
  for (const NamedTensor& p : model->named_parameters()) {
    Tensor values = p.tensor;
    values.copy_(randn(p.tensor.shape(), DType::f32, p.tensor.device()) * 0.3);
  }
  model->eval();
  return model;
}

LlamaConfig int4_llama() {
  return {.vocabulary = 40,
          .context = 24,
          .features = 64,
          .layers = 2,
          .heads = 4,
          .groups = 2,
          .hidden = 96,
          .deviation = 0.2};
}
const Gpt2Config kInt4Gpt2{
    .vocabulary = 40, .context = 24, .features = 64, .layers = 2, .heads = 4, .deviation = 0.2};

void copy_text(const std::string& from, const std::string& to) { write_file(to, read_file(from)); }
void write_text(const std::string& path, const std::string& text) { write_file(path, as_bytes(text)); }

int64_t packed_layers(Module& model) {
  int64_t n = 0;
  model.for_each_module(
      [&](const std::string&, Module& m) { n += dynamic_cast<QuantizedLinear*>(&m) != nullptr ? 1 : 0; });
  return n;
}
double distance_of_logits(LanguageModel& a, LanguageModel& b) {
  const NoGrad no_grad;
  const Tensor tokens = arange(0, 18).reshape({2, 9});
  const Tensor x = a(tokens).to(cpu), y = b(tokens).to(cpu);
  return max(abs(x - y)).item<double>() / max(abs(y)).item<double>();
}

bool every_layer(const std::string& name) {
  return name.find("embed") == std::string::npos && name.find("wte") == std::string::npos &&
         name.find("wpe") == std::string::npos && name.find("lm_head") == std::string::npos;
}

}  // namespace

TEST_CASE("a folder of GPTQ or AWQ computes what the numbers of its codes compute, and stays packed") {
  const NoGrad no_grad;
  const Int4Case cases[] = {{Int4Layout::gptq, true, false},
                            {Int4Layout::gptq, false, false},
                            {Int4Layout::gptq_v2, false, true},
                            {Int4Layout::awq, false, false}};
  const files::TempFolder floats, packed;
  const std::string from = floats / ".", to = packed / ".";
  const auto check = [&](const LanguageModel& model, const Int4Case& c, bool transposed, int64_t layers,
                         const std::function<bool(const std::string&)>& chosen) {
    save_hugging_face(model, from);
    copy_text(floats / "config.json", packed / "config.json");
    write_text(packed / "quantize_config.json", settings_of(c));
    quantize_folder(from, to, c, transposed, chosen);
    const auto want = load_language_model(from), got = load_int4_model(to);
    CHECK(!got->training());
    CHECK(packed_layers(*got) == layers);
    CHECK(distance_of_logits(*got, *want) < 1e-4);
  };
  for (const Int4Case& c : cases) {
    CAPTURE(settings_of(c));
    check(*int4_test_model<Llama>(int4_llama()), c, false, 8, every_layer);
    check(*int4_test_model<Gpt2>(kInt4Gpt2), c, true, 8, every_layer);
  }
  // Only some of the parts of joined layers are packed; the rest stays floats.
  check(*int4_test_model<Llama>(int4_llama()), cases[1], false, 4, [](const std::string& name) {
    return name.find("k_proj") != std::string::npos || name.find("up_proj") != std::string::npos;
  });
}

TEST_CASE("settings in config.json serve; a bias of zeros that the model lacks is dropped, another is not") {
  const NoGrad no_grad;
  const files::TempFolder floats, packed;
  const Int4Case c;
  save_hugging_face(*int4_test_model<Llama>(int4_llama()), floats / ".");
  quantize_folder(floats / ".", packed / ".", c, false, every_layer);
  const std::vector<std::byte> bytes = read_file(floats / "config.json");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string plain = text;
  text.insert(text.find('{') + 1, "\"quantization_config\": " + settings_of(c) + ",");
  write_text(packed / "config.json", text);
  const auto want = load_language_model(floats / ".");
  CHECK(distance_of_logits(*load_int4_model(packed / "."), *want) < 1e-4);

  TensorMap file = load_safetensors(packed / "model.safetensors");
  const TensorMap good = file;
  const auto load_with = [&](const TensorMap& changed) {
    save_safetensors(packed / "model.safetensors", changed, {{"format", "pt"}});
    return load_int4_model(packed / ".");
  };
  file["model.layers.0.self_attn.o_proj.bias"] = zeros({64}, DType::f32, cpu);
  CHECK(distance_of_logits(*load_with(file), *want) < 1e-4);
  file["model.layers.0.self_attn.o_proj.bias"] = ones({64}, DType::f32, cpu);
  files::Refusal r = refusal_of([&] { (void)load_with(file); });
  CHECK(r.code == "TT-NN-04");
  CHECK(files::contains(r.text, "o_proj.bias"));

  file = good;
  file.erase("model.layers.1.mlp.up_proj.scales");
  r = refusal_of([&] { (void)load_with(file); });
  CHECK(r.code == "TT-IO-03");
  CHECK(files::contains(r.text, "up_proj.scales"));

  file = good;  // down_proj has other inputs
  for (const char* part : {"qweight", "qzeros", "scales", "g_idx"})
    file[std::string("model.layers.1.mlp.up_proj.") + part] =
        file[std::string("model.layers.1.mlp.down_proj.") + part];
  CHECK(refusal_of([&] { (void)load_with(file); }).code == "TT-NN-04");

  // Packed tensors are refused where floats are expected, and so are missing settings.
  (void)load_with(good);
  r = refusal_of([&] { (void)load_language_model(packed / "."); });
  CHECK(r.code == "TT-IO-04");
  CHECK(files::contains(r.text, "load_int4_model"));
  write_text(packed / "config.json", plain);
  r = refusal_of([&] { (void)load_int4_model(packed / "."); });
  CHECK(r.code == "TT-IO-04");
  CHECK(files::contains(r.text, "quantization_config"));
}
