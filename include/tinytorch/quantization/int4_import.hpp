// Weights of 4 bits from files of GPTQ and AWQ: safetensors with `qweight`, `qzeros`, `scales` and, for GPTQ,
// `g_idx`.
//
//   const Int4Config config = parse_int4_config(read_file("quantize_config.json"));
//   const TensorMap file = load_safetensors("model.safetensors");
//   import_int4(layer, file, "model.layers.0.mlp.down_proj", config);      // a Linear becomes packed
//
// A group of 32, 64, 128, ... numbers of a row has a scale s in f16 and a zero point z from 0 to 15:
// w = s (q - z). Words have eight codes; code j of a word is in bits 4 i:
//
//            qweight               i32            qzeros [groups, N / 8], words along N       scales
//   GPTQ     [K / 8, N], along K   j = i          j = i, stored z - 1 (gptq) or z (gptq_v2)   [groups, N]
//   AWQ      [K, N / 8], along N   j = 0 2 4 6 1 3 5 7 for i = 0 1 2 ...   as qweight, z      [groups, N]
//
// The result is read packed. If every z is 8 (symmetric), it is Q4_0 with d = s, which is exact. Otherwise it
// is Q4_1 with d = s and m = -s z in f16. That is exact where m has 11 bits, as for z = 0, 1, 2, 4, 8; else
// each number of the group is shifted by at most 2^-11 s z < s / 128, and `exact` is false. A group of GPTQ
// may have its numbers anywhere in the row (act-order, g_idx): rows are stored sorted by groups, and a layer
// permutes its inputs, once for all rows.
//
// Tensors that contradict the configuration (bits, group size, symmetry, layout) are refused with the reason.
// A z of 16 (15 in a gptq file) is refused, too, because some programs read it as 16 and others as 0. Source:
// auto_gptq's QuantLinear and AutoAWQ's WQLinear_GEMM, as published.
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/quantization/linear.hpp>

namespace tinytorch::inline TT_BUILD {

enum class Int4Layout : uint8_t { gptq, gptq_v2, awq };

struct Int4Config {
  Int4Layout layout = Int4Layout::gptq;
  int64_t group = 128;     // numbers that share a scale, a multiple of 32; -1: a row
  bool symmetric = false;  // every zero point is 8
};

// A weight [N, K] on the CPU.
struct Int4Weight {
  QuantizedTensor weight;
  Tensor input_order;  // i64 [K]: column k of the weight belongs to input input_order[k]; undefined: k
  bool exact = true;
};

namespace quantization {

// The settings of quantize_config.json (GPTQ), quant_config.json (AWQ), or "quantization_config" in
// config.json.
class Int4ConfigReader {
 public:
  Int4ConfigReader(const Json& tree, const io::Source& source) : source_(source) {
    const Json* inner = tree.find("quantization_config");
    tree_ = inner ? inner : &tree;
    if (!tree_->object()) source_.reject("an object with settings", tree_->kind());
  }
  Int4Config run() const {
    Int4Config config;
    const std::string method = text("quant_method", tree_->find("w_bit") ? "awq" : "gptq");
    const int64_t bits = number(tree_->find("w_bit") ? "w_bit" : "bits");
    if (bits != 4)
      refuse("4 bits", std::to_string(bits) + " bits", "quantize the original model with 4 bits");
    config.group = number(tree_->find("q_group_size") ? "q_group_size" : "group_size");
    if (config.group != -1 && (config.group < 32 || config.group % 32 != 0))
      refuse("groups of a multiple of 32 numbers, or -1", "group_size " + std::to_string(config.group));
    if (method == "awq") {
      const std::string version = lower(text("version", "gemm"));
      if (version != "gemm") refuse("the version gemm of AWQ", io::in_quotes(version));
      if (!flag("zero_point", true)) refuse("AWQ with zero points", "zero_point false");
      config.layout = Int4Layout::awq;
    } else if (method == "gptq") {
      const std::string format = text("checkpoint_format", "gptq");
      if (format != "gptq" && format != "gptq_v2")
        refuse("the checkpoint_format gptq or gptq_v2", io::in_quotes(format),
               "files for one kernel, such as marlin, have another order of codes; use the original file");
      config.layout = format == "gptq" ? Int4Layout::gptq : Int4Layout::gptq_v2;
      config.symmetric = flag("sym", false);
    } else {
      refuse("the quant_method gptq or awq", io::in_quotes(method));
    }
    return config;
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& found,
                           const std::string& hint = {}) const {
    source_.reject(expected, found, "TT-IO-04", hint);
  }
  static std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return text;
  }
  std::string text(const char* key, const std::string& otherwise) const {
    const Json* found = tree_->find(key);
    if (!found) return otherwise;
    if (!found->string()) source_.reject(std::string("a text '") + key + "'", found->kind());
    return *found->string();
  }
  int64_t number(const char* key) const {
    const Json* found = tree_->find(key);
    const std::optional<int64_t> n = found ? found->integer() : std::nullopt;
    if (!n) source_.reject(std::string("an integer '") + key + "'", found ? found->kind() : "none");
    return *n;
  }
  bool flag(const char* key, bool otherwise) const {
    const Json* found = tree_->find(key);
    if (!found) return otherwise;
    if (!found->boolean()) source_.reject(std::string("true or false for '") + key + "'", found->kind());
    return *found->boolean();
  }

  const io::Source& source_;
  const Json* tree_;
};

// Code j of a word of AWQ is in bits 4 kAwqPlace[j].
inline constexpr int kAwqPlace[8] = {0, 4, 1, 5, 2, 6, 3, 7};

class Int4Reader {
 public:
  Int4Reader(const TensorMap& file, const std::string& prefix, const Int4Config& config,
             const io::Source& source)
      : file_(file), prefix_(prefix), config_(config), source_(source) {
    const Tensor words = tensor("qweight", DType::i32, 2), scales = tensor("scales", DType::f16, 2);
    const bool awq = config.layout == Int4Layout::awq;
    K_ = awq ? words.size(0) : words.size(0) * 8;
    N_ = awq ? words.size(1) * 8 : words.size(1);
    group_ = config.group == -1 ? K_ : config.group;
    if (K_ == 0 || N_ == 0 || N_ % 8 != 0 || group_ < 32 || group_ % 32 != 0 || K_ % group_ != 0) {
      source_.reject(
          "rows of whole groups of " + std::to_string(group_) + ", a multiple of 32, and N a multiple of 8",
          describe("qweight", words) + ", which is [N, K] = " + Shape{N_, K_}.str(), "TT-IO-04");
    }
    groups_ = K_ / group_;
    const Tensor zeros = tensor("qzeros", DType::i32, 2);
    const Shape of_scales{groups_, N_}, of_zeros{groups_, N_ / 8};
    if (!(scales.shape() == of_scales)) mismatch("scales", scales, of_scales);
    if (!(zeros.shape() == of_zeros)) mismatch("qzeros", zeros, of_zeros);
    words_ = numbers<int32_t>(words), zeros_ = numbers<int32_t>(zeros);
    scales_ = scales.to_vector<float>();
    read_order();
  }

  Int4Weight run() const {
    const bool symmetric = check_zeros();
    const BlockFormat& format = block_format(symmetric ? "Q4_0" : "Q4_1", source_.loc);
    Int4Weight out;
    Tensor blocks = empty({N_, format.row_bytes(K_)}, DType::u8, cpu);
    auto* const bytes = blocks.view_of().as<uint8_t>();
    for (int64_t n = 0; n < N_; ++n) {
      for (int64_t b = 0; b < K_ / 32; ++b) {
        uint8_t* const block = bytes + n * format.row_bytes(K_) + b * format.bytes;
        const int64_t g = b * 32 / group_;
        const float s = scale(g, n);
        store_half(block, s);
        if (!symmetric) out.exact = store_least(block + 2, s, zero(g, n), g, n) && out.exact;
        uint8_t* const codes = block + (symmetric ? 2 : 4);
        for (int64_t i = 0; i < 16; ++i)
          codes[i] = static_cast<uint8_t>(code(n, input(b * 32 + i)) | code(n, input(b * 32 + i + 16)) << 4);
      }
    }
    out.weight = QuantizedTensor(format, K_, blocks, {}, {}, source_.loc);
    if (!order_.empty()) out.input_order = from_data(order_, {K_}, cpu);
    return out;
  }

 private:
  static std::string describe(const std::string& name, const Tensor& t) {
    return name + " " + name_of(t.dtype()) + " " + t.shape().str();
  }
  Tensor tensor(const char* name, DType dtype, int rank) const {
    const auto found = file_.find(prefix_ + "." + name);
    const bool fits = found != file_.end() && found->second.dtype() == dtype && found->second.rank() == rank;
    if (!fits) {
      source_.reject(std::string(name_of(dtype)) + " of rank " + std::to_string(rank) + " for " +
                         io::in_quotes(prefix_ + "." + name),
                     found == file_.end() ? "none" : describe(name, found->second));
    }
    return found->second;
  }
  template <class T>
  static std::vector<T> numbers(const Tensor& t) {
    const Tensor all = t.to(cpu).contiguous();
    const T* const p = all.data<T>();
    return {p, p + all.numel()};
  }
  [[noreturn]] void mismatch(const char* name, const Tensor& t, const Shape& wanted) const {
    source_.reject(std::string(name) + " " + wanted.str() + " for groups of " + std::to_string(group_) +
                       " and [N, K] = " + Shape{N_, K_}.str(),
                   describe(name, t), "TT-IO-03",
                   "the configuration is that of another file, or another layout, if N and K look exchanged");
  }
  // Sorts the inputs by groups, each of which must be complete.
  void read_order() {
    const auto found = file_.find(prefix_ + ".g_idx");
    if (config_.layout == Int4Layout::awq || found == file_.end()) return;
    const Tensor given = tensor("g_idx", DType::i32, 1);
    const std::vector<int32_t> of_input = numbers<int32_t>(given);
    std::vector<int64_t> next(static_cast<size_t>(groups_), 0);
    std::vector<int64_t> order(static_cast<size_t>(K_), -1);
    if (std::ssize(of_input) != K_) mismatch("g_idx", given, {K_});
    bool sorted = true;
    for (int64_t k = 0; k < K_; ++k) {
      const int32_t g = of_input[static_cast<size_t>(k)];
      if (g < 0 || g >= groups_ || next[static_cast<size_t>(g)] == group_) {
        source_.reject(
            "g_idx with each of " + std::to_string(groups_) + " groups " + std::to_string(group_) + " times",
            "group " + std::to_string(g) + " at input " + std::to_string(k));
      }
      const int64_t at = g * group_ + next[static_cast<size_t>(g)]++;
      order[static_cast<size_t>(at)] = k;
      sorted = sorted && at == k;
    }
    if (!sorted) order_ = std::move(order);
  }

  int64_t input(int64_t k) const { return order_.empty() ? k : order_[static_cast<size_t>(k)]; }
  static int nibble(int32_t word, int64_t place) {
    return static_cast<int>(static_cast<uint32_t>(word) >> 4 * place & 15);
  }
  int code(int64_t n, int64_t k) const {
    if (config_.layout == Int4Layout::awq)
      return nibble(words_[static_cast<size_t>(k * (N_ / 8) + n / 8)], kAwqPlace[n % 8]);
    return nibble(words_[static_cast<size_t>(k / 8 * N_ + n)], k % 8);
  }
  float scale(int64_t g, int64_t n) const { return scales_[static_cast<size_t>(g * N_ + n)]; }
  int zero(int64_t g, int64_t n) const {
    const int32_t word = zeros_[static_cast<size_t>(g * (N_ / 8) + n / 8)];
    const int stored = nibble(word, config_.layout == Int4Layout::awq ? kAwqPlace[n % 8] : n % 8);
    return stored + (config_.layout == Int4Layout::gptq ? 1 : 0);
  }
  // Returns true if every zero point is 8. Refuses zero points that contradict the configuration, and scales
  // that are not finite.
  bool check_zeros() const {
    bool symmetric = true;
    for (int64_t g = 0; g < groups_; ++g) {
      for (int64_t n = 0; n < N_; ++n) {
        const int z = zero(g, n);
        const std::string where = " in group " + std::to_string(g) + " of row " + std::to_string(n);
        if (!std::isfinite(scale(g, n)))
          source_.reject("finite scales for " + io::in_quotes(prefix_), "another number" + where);
        if (config_.symmetric && z != 8) {
          source_.reject("zero points of 8, because the configuration says sym", std::to_string(z) + where,
                         "TT-IO-03",
                         z == 9   ? "zero points are stored as in gptq_v2: set checkpoint_format"
                         : z == 7 ? "zero points are stored as in gptq: set checkpoint_format"
                                  : "the file is not symmetric: set sym to false");
        }
        if (z > 15) {
          source_.reject("zero points up to 15 for " + io::in_quotes(prefix_),
                         "15 stored as 16 - 1" + where + ", which some programs read as 16 and others as 0",
                         "TT-IO-04", "convert the file to gptq_v2, or quantize the model again");
        }
        symmetric = symmetric && z == 8;
      }
    }
    return symmetric;
  }
  // Stores -s z as f16; whether that is exact.
  bool store_least(uint8_t* to, float s, int z, int64_t g, int64_t n) const {
    const float least = -s * static_cast<float>(z);  // exact: 11 bits times 4
    store_half(to, least);
    const float stored = load_half(to);
    if (!std::isfinite(stored)) {
      source_.reject(
          "scale times zero point within f16 for " + io::in_quotes(prefix_),
          std::to_string(-least) + " in group " + std::to_string(g) + " of row " + std::to_string(n),
          "TT-IO-04");
    }
    return stored == least;
  }

  const TensorMap& file_;
  const std::string& prefix_;
  const Int4Config& config_;
  const io::Source& source_;
  int64_t N_ = 0, K_ = 0, group_ = 0, groups_ = 0;
  std::vector<int32_t> words_, zeros_;
  std::vector<float> scales_;
  std::vector<int64_t> order_;  // empty: inputs are in the order of groups
};

}  // namespace quantization

// The settings of quantize_config.json (GPTQ), quant_config.json (AWQ), or of "quantization_config" in
// config.json. Throws TT-IO-03 for malformed text, and TT-IO-04 for other bits, methods, layouts and group
// sizes.
inline Int4Config parse_int4_config(Bytes text, const std::string& name = "quantization config", TT_LOC) {
  const io::Source source{name, "the settings of weights of 4 bits", loc};
  const Json tree = parse_json(text, source);
  return quantization::Int4ConfigReader(tree, source).run();
}

// The weight whose tensors are `prefix`.qweight, .qzeros, .scales and .g_idx. Throws TT-IO-03 for tensors
// that do not fit each other or the configuration, and TT-IO-04 for what cannot be represented.
inline Int4Weight read_int4(const TensorMap& file, const std::string& prefix, const Int4Config& config,
                            TT_LOC) {
  const io::Source source{prefix, "weights of 4 bits", loc};
  return quantization::Int4Reader(file, prefix, config, source).run();
}

// Packs `layer` with the weight of the file, and fills its bias with `prefix`.bias if it has one. Throws as
// read_int4 does, and TT-NN-04 if the sizes are not those of the layer; then nothing is changed.
inline std::shared_ptr<QuantizedLinear> import_int4(Linear& layer, const TensorMap& file,
                                                    const std::string& prefix, const Int4Config& config,
                                                    Activations activations = Activations::int8, TT_LOC) {
  const Int4Weight w = read_int4(file, prefix, config, loc);
  const auto bias = file.find(prefix + ".bias");
  const bool same_bias = layer.bias.defined()
                             ? bias != file.end() && bias->second.shape() == layer.bias.shape()
                             : bias == file.end();
  if (!(w.weight.shape() == layer.weight.shape()) || !same_bias) {
    fail("TT-NN-04",
         "import_int4: " + io::in_quotes(prefix) + " is " + w.weight.shape().str() +
             (bias == file.end() ? " without a bias" : " with a bias") + ", the layer is " +
             layer.weight.shape().str() + (layer.bias.defined() ? " with a bias" : " without a bias"),
         loc);
  }
  const NoGrad no_grad;
  const Device device = layer.weight.device();
  if (layer.bias.defined()) layer.bias.copy_(bias->second.to(device, loc).to(layer.bias.dtype(), loc));
  const auto packed = replace_packed(layer, w.weight.to(device, loc), activations);
  if (w.input_order.defined()) packed->set_input_order(w.input_order.to(device, loc));
  return packed;
}

}  // namespace tinytorch::inline TT_BUILD
