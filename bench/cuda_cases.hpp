// The cases that bench_cuda times (cuda_case.hpp). bench/peers/cuda_torch.py does the same work by these
// descriptions; cuda_work.hpp makes the library's calls.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <codes_cases.hpp>
#include <cuda_case.hpp>
#include <decode_cache.hpp>
#include <gpt2_step.hpp>
#include <map>
#include <span>
#include <string>
#include <tinytorch/tinytorch.hpp>
#include <utility>
#include <vector>

namespace bench {

// The row of OP that an op of the list is; empty if it is more than one call.
inline std::string row_of(const std::string& op) {
  static const std::map<std::string, std::string> kRows = {
      {"relu", "relu(x)"},
      {"exp", "exp(x)"},
      {"gelu", "gelu(x)"},
      {"add", "add(x, y)"},
      {"add_row", "add(x, y)"},
      {"sum", "sum(x)"},
      {"sum_rows", "sum(x, {1})"},
      {"softmax", "softmax(x)"},
      {"log_softmax", "log_softmax(x)"},
      {"layer_norm", "layer_norm(x, y, z)"},
      {"rms_norm", "rms_norm(x, y)"},
      {"cross_entropy", "cross_entropy(x, y)"},
      {"linear_gelu", "linear_activation(x, y, z, Activation::gelu_tanh)"},
      {"linear_residual", "linear_residual(x, y, z, u)"}};
  const auto found = kRows.find(op.ends_with("_backward") ? op.substr(0, op.size() - 9) : op);
  return found == kRows.end() ? "" : found->second;
}

class CudaCaseList {
 public:
  // Divides the sizes by `shrink`, for a dry run on a machine without a GPU.
  explicit CudaCaseList(int64_t shrink) : shrink_(shrink) {
    copies();
    rows();
    cross_entropy();
    row_grid();
    elementwise();
    linear();
    conv();
    attention();
    decode();
    append();
    for (CudaCase& c : codes_cases(shrink_)) add(std::move(c));
    whole_steps();
    gpt2_steps();
  }
  std::vector<CudaCase> cases;

 private:
  static constexpr const char* kCopy = "copy 256 MiB f32";  // moves as much as a cache of 537 MB
  static constexpr double kRotation = 256e6;  // least bytes of all sets together: five L2 caches of an H200
  static constexpr double kSample = 4e-4;     // least seconds of a sample when the work runs at the peak

  int64_t smaller(int64_t n, int64_t least = 1) const { return std::max(std::min(n, least), n / shrink_); }

  void add(CudaCase c) {
    const double seconds = std::max({c.bytes / 4e12, c.flops / 6e14, 4e-6});
    if (c.graph && shrink_ == 1) {
      c.sets =
          std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kRotation / std::max(c.bytes, 1.0))), 2, 24);
      if (c.bytes > 6e9) c.sets = 1;
      c.calls = c.sets * std::clamp<int64_t>(
                             static_cast<int64_t>(kSample / seconds / static_cast<double>(c.sets)) + 1, 1, 8);
    }
    cases.push_back(std::move(c));
  }
  static double size_of(tt::DType t) { return static_cast<double>(tt::size_of(t)); }

  void copies() {
    for (const int64_t mb : {64, 256, 1024, 4096}) {
      const int64_t n = smaller(mb << 18);
      const double bytes = 4.0 * static_cast<double>(n);
      CudaCase c{.name = "copy " + std::to_string(mb) + " MiB f32", .group = "copy", .op = "copy"};
      c.shape = {n}, c.peers = {"eager"}, c.bytes = 2 * bytes, c.tensor_bytes = bytes;
      add(std::move(c));
    }
  }

  void row_case(const std::string& op, double passes, int64_t rows, int64_t cols, tt::DType dtype,
                const std::string& kind = "") {
    const bool of_grid = !kind.empty();
    const int64_t r = smaller(rows, 8);
    const double bytes = static_cast<double>(r * cols) * size_of(dtype);
    CudaCase c{.name = (of_grid ? "grid, " + kind + ": " : "") + op + " " + std::to_string(rows) + "x" +
                       std::to_string(cols) + " " + name_of(dtype),
               .group = of_grid ? "rows_" + kind : op,
               .op = op,
               .dtype = dtype};
    c.row = row_of(op), c.operands = {{r, cols}};
    if (op.starts_with("layer_norm") || op.starts_with("rms_norm")) c.operands.push_back({cols});
    if (op.starts_with("layer_norm")) c.operands.push_back({cols});
    c.shape = {r, cols}, c.bytes = passes * bytes, c.tensor_bytes = bytes;
    c.peers = of_grid ? std::vector<std::string>{"compile"} : std::vector<std::string>{"eager", "compile"};
    add(std::move(c));
  }
  void rows() {
    constexpr std::pair<int64_t, int64_t> kShapes[] = {
        {8192, 768}, {16384, 4096}, {4096, 50304}, {32768, 1024}, {1024, 16384}};
    for (const char* op : {"softmax", "layer_norm", "rms_norm", "log_softmax"}) {
      for (const bool backward : {false, true}) {
        for (const tt::DType dtype : {tt::bf16, tt::f32}) {
          for (const auto& [r, c] : kShapes) {
            row_case(backward ? std::string(op) + "_backward" : op, backward ? 3 : 2, r, c, dtype);
          }
        }
      }
    }
  }
  // Least traffic: the logits are read once and their gradient is written once.
  void cross_entropy() { row_case("cross_entropy", 2, 4096, 50304, tt::bf16); }

  // Row shapes for which a kernel may need a special path: few and very long rows, lengths that are no
  // multiple of 16 bytes, narrow rows, and vocabularies larger than shared memory. Every third pair of an op
  // and a shape is taken, such that each shape and each op occurs with each dtype.
  void row_grid() {
    constexpr std::pair<const char*, double> kOps[] = {
        {"softmax", 2},    {"log_softmax_backward", 3}, {"softmax_backward", 3},  {"layer_norm", 2},
        {"rms_norm", 2},   {"layer_norm_backward", 3},  {"rms_norm_backward", 3}, {"sum_rows", 1},
        {"log_softmax", 2}};
    constexpr tt::DType kDtypes[] = {tt::bf16, tt::f32, tt::f16};
    struct Shape {
      const char* kind;
      int64_t rows, cols;
    };
    constexpr Shape kShapes[] = {
        {"long", 7, 100'003},     {"long", 1, 1'000'000},   {"long", 3, 262'144},
        {"long", 64, 1'000'000},  {"long", 16, 131'072},    {"long", 1, 1'000'003},
        {"long", 31, 500'001},    {"odd", 5003, 10'007},    {"odd", 30'011, 771},
        {"odd", 1031, 50'257},    {"odd", 4099, 1025},      {"odd", 2053, 20'011},
        {"odd", 12'345, 3001},    {"odd", 999, 99'999},     {"narrow", 1'000'000, 3},
        {"narrow", 131'072, 256}, {"narrow", 1'000'000, 7}, {"narrow", 1'000'000, 1},
        {"narrow", 500'000, 33},  {"narrow", 262'144, 64},  {"narrow", 200'001, 255}};
    for (size_t s = 0; s < std::size(kShapes); ++s) {
      for (size_t o = 0; o < std::size(kOps); ++o) {
        if ((s + o) % 3 != 0) continue;
        const Shape& shape = kShapes[s];
        row_case(kOps[o].first, kOps[o].second, shape.rows, shape.cols, kDtypes[(s / 3 + o / 3) % 3],
                 shape.kind);
      }
    }
    row_case("cross_entropy", 2, 2048, 128'256, tt::bf16, "vocabulary");
    row_case("cross_entropy", 2, 1024, 151'936, tt::f32, "vocabulary");
    row_case("cross_entropy", 2, 512, 262'144, tt::f16, "vocabulary");
    row_case("cross_entropy", 2, 4096, 50'257, tt::bf16, "vocabulary");
    row_case("cross_entropy", 2, 65'536, 101, tt::bf16, "vocabulary");
  }

  void elementwise() {
    constexpr std::pair<const char*, double> kOps[] = {{"relu", 2},    {"exp", 2}, {"gelu", 2},    {"add", 3},
                                                       {"add_row", 2}, {"sum", 1}, {"sum_rows", 1}};
    for (const auto& [op, passes] : kOps) {
      for (const tt::DType dtype : {tt::f32, tt::bf16}) {
        for (const int64_t mb : {64, 256, 1024}) {
          const int64_t rows = smaller((mb << 20) / static_cast<int64_t>(tt::size_of(dtype)) / 4096);
          const double bytes = static_cast<double>(rows * 4096) * size_of(dtype);
          CudaCase c{.name = std::string(op) + " " + std::to_string(mb) + " MiB " + name_of(dtype),
                     .group = "elementwise",
                     .op = op,
                     .dtype = dtype};
          c.row = row_of(op), c.operands = {{rows, 4096}};
          if (c.op == "add") c.operands.push_back({rows, 4096});
          if (c.op == "add_row") c.operands.push_back({4096});
          c.shape = {rows, 4096}, c.peers = {"eager"}, c.bytes = passes * bytes, c.tensor_bytes = bytes;
          add(std::move(c));
        }
      }
    }
  }

  void linear() {
    product("linear_gelu", {8192, 768, 3072});
    product("linear_gelu", {8192, 3072, 768});
    product("linear_gelu", {4096, 4096, 4096});
    product("linear_gelu", {8192, 4096, 16384});
    product("linear_residual", {8192, 768, 768});  // this and the next: a transformer block of GPT-2
    product("linear_residual", {8192, 3072, 768});
    product("linear_residual", {4096, 4096, 4096});
    for (const int64_t rows : {1, 8, 16}) {  // decoding steps: a block of GPT-2, and larger models
      product("linear_gelu", {rows, 768, 3072}, "linear_few_rows");
      product("linear_residual", {rows, 3072, 768}, "linear_few_rows");
      product("linear_gelu", {rows, 4096, 4096}, "linear_few_rows");
      product("linear_residual", {rows, 11008, 4096}, "linear_few_rows");
    }
  }

  // sides = {m, k, n}: the input [m, k], the weight [n, k], the result and a residual [m, n].
  void product(const std::string& op, const std::array<int64_t, 3>& sides, const std::string& group = "") {
    const auto [m, k, n] = sides;
    CudaCase c{
        .name = op + " " + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n) + " bf16",
        .group = group.empty() ? op : group,
        .op = op,
        .dtype = tt::bf16};
    c.shape = {smaller(m, 8), smaller(k, 8), smaller(n, 8)};
    c.peers = {"eager", "max_autotune"};
    c.row = row_of(op);
    c.operands = {{c.shape[0], c.shape[1]}, {c.shape[2], c.shape[1]}, {c.shape[2]}};
    if (op == "linear_residual") c.operands.push_back({c.shape[0], c.shape[2]});
    const auto M = static_cast<double>(c.shape[0]), K = static_cast<double>(c.shape[1]),
               N = static_cast<double>(c.shape[2]);
    c.bytes = 2 * (M * K + N * K + N + M * N * (op == "linear_residual" ? 2 : 1)), c.flops = 2 * M * N * K;
    c.tensor_bytes = 2 * std::max({M * K, N * K, M * N});
    add(std::move(c));
  }

  // Convolutions that take most of the time of a ResNet: N, C, H = W, O, kernel, stride. Forward and
  // backward.
  void conv() {
    constexpr int64_t kShapes[][6] = {
        {64, 3, 224, 64, 7, 2},   {64, 64, 56, 64, 3, 1},   {64, 256, 56, 64, 1, 1}, {64, 128, 56, 128, 3, 2},
        {64, 128, 28, 128, 3, 1}, {64, 256, 14, 256, 3, 1}, {64, 512, 7, 512, 3, 1}};
    for (const auto& [n, ch, side, out, kernel, stride] : kShapes) {
      CudaCase c{.name = "conv2d " + std::to_string(n) + "x" + std::to_string(ch) + "x" +
                         std::to_string(side) + "x" + std::to_string(side) + " to " + std::to_string(out) +
                         ", " + std::to_string(kernel) + "x" + std::to_string(kernel) + " stride " +
                         std::to_string(stride) + " bf16",
                 .group = "conv2d",
                 .op = "conv2d",
                 .dtype = tt::bf16};
      const int64_t images = smaller(n), outputs = (side + kernel / 2 * 2 - kernel) / stride + 1;
      c.shape = {images, ch, side, side}, c.peers = {"eager", "channels_last"};
      c.options = {{"out", out}, {"kernel", kernel}, {"stride", stride}, {"padding", kernel / 2}};
      const auto x = static_cast<double>(images * ch * side * side),
                 y = static_cast<double>(images * out * outputs * outputs),
                 w = static_cast<double>(out * ch * kernel * kernel);
      c.bytes = 2 * (3 * x + 3 * y + 3 * w), c.tensor_bytes = 2 * std::max(x, y);
      c.flops = 6 * y * static_cast<double>(ch * kernel * kernel);
      add(std::move(c));
    }
  }

  // Causal attention with 2048 features in heads of D, and 16,384 tokens in sequences of T. Queries, keys and
  // values are [B, T, H, D], which is the layout in a model. The mask leaves T (T + 1) / 2 pairs: two
  // products of that size forward, five backward.
  void attention() {
    for (const bool backward : {false, true}) {
      for (const int64_t D : {64, 128}) {
        for (const int64_t T : {1024, 4096, 16384}) {
          CudaCase c{.name = std::string("attention") + (backward ? " backward" : "") + ", causal, T " +
                             std::to_string(T) + ", heads of " + std::to_string(D) + ", bf16",
                     .group = backward ? "attention_backward" : "attention",
                     .op = backward ? "attention_backward" : "attention",
                     .dtype = tt::bf16};
          const int64_t length = smaller(T, 16), heads = smaller(2048 / D);
          c.shape = {smaller(16384 / T), length, heads, D}, c.peers = {"flash", "cudnn"};
          const auto lines = static_cast<double>(c.shape[0] * heads), rows = static_cast<double>(length),
                     elements = lines * rows * static_cast<double>(D);
          c.bytes = 2 * elements * (backward ? 8 : 4), c.tensor_bytes = 2 * elements;
          c.flops = 2 * (backward ? 5 : 2) * elements * (rows + 1) / 2;
          add(std::move(c));
        }
      }
    }
  }

  // Caches of 256 to 537 MB of bf16, and the same tokens in smaller formats. The first shape has goals; the
  // others are one long sequence, many short ones, one head of keys, as many heads of keys as of queries,
  // narrow heads and small pages.
  void decode() {
    const DecodeShape kShapes[] = {{},
                                   {.sequences = 1, .tokens = 131'072},
                                   {.sequences = 256, .tokens = 512},
                                   {.tokens = 16'384, .groups = 1},
                                   {.sequences = 16, .tokens = 2048, .groups = 32},
                                   {.tokens = 8192, .head_size = 64},
                                   {.page = 16}};
    for (const DecodeShape& shape : kShapes) {
      const std::string group = &shape == kShapes ? "decode" : "decode_shapes";
      DecodeShape contiguous = shape;
      contiguous.page = 0;
      const auto same = [&](const CudaCase& c) { return c.name == "decode " + contiguous.str(); };
      if (std::ranges::none_of(cases, same))
        decode_case(group + "_contiguous", contiguous, {{"copy", kCopy}});
      decode_case(group, shape, {{"copy", kCopy}, {"contiguous", "decode " + contiguous.str()}});
      for (const auto& [cache, format] : std::span(kCacheFormats).subspan(1)) {
        DecodeShape few = shape;
        few.cache = cache, few.format = format;
        decode_case(group + "_" + few.elements(), few, {{"copy", kCopy}, {"bf16", "decode " + shape.str()}});
      }
    }
  }
  void decode_case(const std::string& group, DecodeShape shape, std::map<std::string, std::string> rivals) {
    CudaCase c{.name = "decode " + shape.str(), .group = group, .op = "decode", .dtype = tt::bf16};
    shape.sequences = smaller(shape.sequences), shape.tokens = smaller(shape.tokens, 64);
    const auto rows = static_cast<double>(shape.sequences * shape.heads * shape.head_size);
    c.options = shape.options(), c.rivals = std::move(rivals);
    c.bytes = shape.cache_bytes() + 2 * 2 * rows, c.tensor_bytes = shape.cache_bytes() / 2;
    c.flops = 4 * rows * static_cast<double>(shape.tokens);
    add(std::move(c));
  }
  // 512 tokens of each of 64 prompts, and one token of each of 256 sequences.
  void append() {
    for (const auto& [cache, format] : kCacheFormats) {
      for (const auto& [sequences, rows] : {std::pair<int64_t, int64_t>{64, 512}, {256, 1}}) {
        DecodeShape shape{.sequences = sequences, .tokens = 1024, .cache = cache, .format = format};
        CudaCase c{.name = "kv_append " + std::to_string(sequences) + "x" + std::to_string(rows) +
                           ", 8 heads of 128, page 64, " + shape.elements(),
                   .group = "kv_append",
                   .op = "kv_append",
                   .dtype = tt::bf16};
        shape.sequences = smaller(sequences), c.options = shape.options(), c.options["rows"] = rows;
        c.rivals = {{"copy", kCopy}};
        const auto tokens = static_cast<double>(shape.sequences * rows);
        c.tensor_bytes = 2 * 8 * 128 * tokens, c.bytes = 2 * c.tensor_bytes + tokens * shape.token_bytes();
        add(std::move(c));
      }
    }
  }

  void whole_steps() {
    // 8 values of 4 bytes per parameter. Read: the gradient (for the norm), then the parameter, the gradient
    // and both moments; written: the parameter and both moments.
    const int64_t width = smaller(768, 16);
    CudaCase adamw{.name = "adamw 125M f32", .group = "adamw", .op = "adamw"};
    adamw.shape = {width, smaller(50257, 64), 12}, adamw.peers = {"eager"}, adamw.graph = false;
    adamw.bytes = 32 * adamw_parameters(adamw.shape), adamw.tensor_bytes = 4 * adamw_parameters(adamw.shape);
    adamw.calls = 4;
    add(adamw);
    CudaCase replayed = adamw;
    replayed.name = "adamw 125M f32, captured", replayed.group = "adamw_captured", replayed.graph = true;
    add(std::move(replayed));

    CudaCase digits{.name = "digits conv net step, batch 256", .group = "digits_step", .op = "digits_step"};
    digits.shape = {smaller(256, 8)}, digits.peers = {"eager", "compile"};
    add(std::move(digits));
    cases.back().sets = cases.back().calls = 1;  // a real step finds its data in the cache, too
  }

  void gpt2_steps() {
    for (const int64_t batch : {32, 64}) {
      const Gpt2Step step = shrink_ == 1 ? Gpt2Step::small(batch) : Gpt2Step::tiny();
      CudaCase c{.name = "gpt2 124M step, T=1024 B=" + std::to_string(batch) + " bf16",
                 .group = "gpt2_step",
                 .op = "gpt2_step",
                 .dtype = tt::bf16};
      c.shape = {step.B, step.T, step.C}, c.peers = {"eager", "compile"};
      c.options = step.options(), c.tokens = step.tokens(), c.flops = step.flops();
      add(std::move(c));
      cases.back().sets = cases.back().calls = 1;
    }
  }

 public:
  // Shapes of GPT-2's parameters; sizes = {features, vocabulary, transformer blocks}.
  static std::vector<tt::Shape> adamw_shapes(const std::vector<int64_t>& sizes) {
    const int64_t C = sizes[0];
    std::vector<tt::Shape> shapes = {{sizes[1], C}, {1024, C}};
    for (int64_t block = 0; block < sizes[2]; ++block) {
      shapes.insert(
          shapes.end(),
          {{C}, {C}, {3 * C, C}, {3 * C}, {C, C}, {C}, {C}, {C}, {4 * C, C}, {4 * C}, {C, 4 * C}, {C}});
    }
    shapes.insert(shapes.end(), {{C}, {C}});
    return shapes;
  }
  static double adamw_parameters(const std::vector<int64_t>& sizes) {
    double count = 0;
    for (const tt::Shape& s : adamw_shapes(sizes)) count += static_cast<double>(s.numel());
    return count;
  }

 private:
  int64_t shrink_;
};

}  // namespace bench
