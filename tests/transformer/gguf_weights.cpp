// The tables of names of GGUF: names, shapes, and the rows of q and k in the order of llama.cpp.
#include <tinytorch/transformer/gguf_weights.hpp>

#include <io/gguf_files.hpp>
#include <random>

namespace tt = tinytorch;
namespace gguf = tt::gguf;

namespace {

const tt::Gpt2Config kGpt2{
    .vocabulary = 7, .context = 5, .features = 6, .layers = 1, .heads = 2, .hidden = 9};
const tt::LlamaConfig kLlama{.vocabulary = 7,
                             .features = 6,
                             .layers = 2,
                             .heads = 3,
                             .groups = 1,
                             .head_size = 4,
                             .hidden = 5,
                             .attention_bias = true};

const gguf::Place& place_of(const std::vector<gguf::Place>& places, const std::string& name) {
  for (const gguf::Place& p : places)
    if (p.name == name) return p;
  throw std::runtime_error(name);
}

}  // namespace

TEST_CASE("gpt2: names and shapes; matrices are [out, in]") {
  tt::Gpt2Config config = kGpt2;
  config.tied = false;
  const tt::Gpt2 model(config);
  const std::vector<gguf::Place> places = gguf::layout_of(model);
  CHECK(places.size() == 17);
  const std::map<std::string, tt::Shape> expected = {{"token_embd.weight", {7, 6}},
                                                     {"position_embd.weight", {5, 6}},
                                                     {"blk.0.attn_norm.weight", {6}},
                                                     {"blk.0.attn_norm.bias", {6}},
                                                     {"blk.0.attn_qkv.weight", {18, 6}},
                                                     {"blk.0.attn_qkv.bias", {18}},
                                                     {"blk.0.attn_output.weight", {6, 6}},
                                                     {"blk.0.attn_output.bias", {6}},
                                                     {"blk.0.ffn_norm.weight", {6}},
                                                     {"blk.0.ffn_norm.bias", {6}},
                                                     {"blk.0.ffn_up.weight", {9, 6}},
                                                     {"blk.0.ffn_up.bias", {9}},
                                                     {"blk.0.ffn_down.weight", {6, 9}},
                                                     {"blk.0.ffn_down.bias", {6}},
                                                     {"output_norm.weight", {6}},
                                                     {"output_norm.bias", {6}},
                                                     {"output.weight", {7, 6}}};
  for (const auto& [name, shape] : expected) {
    CAPTURE(name);
    const gguf::Place& p = place_of(places, name);
    CHECK(p.ours.shape() == shape);
    CHECK(p.head_size == 0);
    CHECK(p.our_row(3) == 3);
    CHECK(files::same(gguf::copy_out(p), p.ours.to(tt::cpu).contiguous()));
  }
}

TEST_CASE("llama: row 2i + s of a head of q and k is our row i + s D/2") {
  tt::Llama model(kLlama);
  const std::vector<gguf::Place> places = gguf::layout_of(model);
  CHECK(places.size() == 2 * 13 + 3);
  const tt::Tensor& packed = model.blocks[1].attention.qkv.weight;  // [(3 + 1 + 1) 4, 6]
  const std::vector<float> ours = packed.to_vector<float>();
  const std::vector<float> bias = model.blocks[1].attention.qkv.bias.to_vector<float>();
  for (const auto& [name, first, heads] : {std::tuple{"blk.1.attn_q", 0, 3}, {"blk.1.attn_k", 12, 1}}) {
    const gguf::Place& weight = place_of(places, name + std::string(".weight"));
    const std::vector<float> file = gguf::copy_out(weight).to_vector<float>();
    const std::vector<float> file_bias =
        gguf::copy_out(place_of(places, name + std::string(".bias"))).to_vector<float>();
    REQUIRE(file.size() == static_cast<size_t>(heads * 4 * 6));
    for (int h = 0; h < heads; ++h) {
      for (int i = 0; i < 2; ++i) {
        for (int s = 0; s < 2; ++s) {
          const int row = h * 4 + 2 * i + s, own = first + h * 4 + i + 2 * s;
          CHECK(weight.our_row(row) + first == own);
          CHECK(file_bias[static_cast<size_t>(row)] == bias[static_cast<size_t>(own)]);
          for (int c = 0; c < 6; ++c)
            CHECK(file[static_cast<size_t>(row * 6 + c)] == ours[static_cast<size_t>(own * 6 + c)]);
        }
      }
    }
  }
  CHECK(place_of(places, "blk.1.attn_v.weight").head_size == 0);
  CHECK(files::same(gguf::copy_out(place_of(places, "blk.1.attn_v.weight")),
                    tt::slice(packed, 0, 16, 20).detach().to(tt::cpu).contiguous()));
}

// The purpose of the order: llama.cpp rotates the neighbours (2i, 2i + 1) of what the file's rows compute,
// and must get our scores, for which Rotary rotates halves.
TEST_CASE("llama: scores by llama.cpp's rotation of the file's rows equal ours") {
  tt::LlamaConfig config = kLlama;
  config.head_size = 10, config.rotary.theta = 50;
  tt::Llama model(config);
  const int64_t C = 6, D = 10, T = 7;
  const std::vector<gguf::Place> places = gguf::layout_of(model);
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(T * C));
  for (double& v : x) v = normal(random);
  // Head `h` of W x for each token, in double: [T, D].
  const auto project = [&](const std::vector<float>& W, int64_t first) {
    std::vector<double> out;
    for (int64_t t = 0; t < T; ++t)
      for (int64_t d = 0; d < D; ++d) {
        double sum = 0;
        for (int64_t c = 0; c < C; ++c)
          sum += static_cast<double>(W[static_cast<size_t>((first + d) * C + c)]) *
                 x[static_cast<size_t>(t * C + c)];
        out.push_back(sum);
      }
    return out;
  };
  const auto rotate_neighbours = [&](std::vector<double> v) {
    for (int64_t t = 0; t < T; ++t)
      for (int64_t i = 0; i < D / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(50.0, -2.0 * static_cast<double>(i) / static_cast<double>(D));
        double &a = v[static_cast<size_t>(t * D + 2 * i)], &b = v[static_cast<size_t>(t * D + 2 * i + 1)];
        const double old = a;
        a = old * std::cos(angle) - b * std::sin(angle), b = old * std::sin(angle) + b * std::cos(angle);
      }
    return v;
  };
  const std::vector<float> q_file =
      gguf::copy_out(place_of(places, "blk.0.attn_q.weight")).to_vector<float>();
  const std::vector<float> k_file =
      gguf::copy_out(place_of(places, "blk.0.attn_k.weight")).to_vector<float>();
  const std::vector<float> packed = model.blocks[0].attention.qkv.weight.to_vector<float>();
  tt::Rotary& rotary = *model.blocks[0].attention.options.rotary;
  const auto ours = [&](int64_t first) {
    const tt::Tensor v =
        tt::from_data(project(packed, first), {1, 1, T, D}, tt::cpu).to(tt::default_device());
    return rotary.turn(v).to_vector<double>();
  };
  const std::vector<double> our_k = ours(3 * D), file_k = rotate_neighbours(project(k_file, 0));
  for (int64_t h = 0; h < 3; ++h) {
    const std::vector<double> our_q = ours(h * D), file_q = rotate_neighbours(project(q_file, h * D));
    for (int64_t t = 0; t < T; ++t)
      for (int64_t s = 0; s < T; ++s) {
        double a = 0, b = 0, size = 0;
        for (int64_t d = 0; d < D; ++d) {
          const auto i = static_cast<size_t>(t * D + d), j = static_cast<size_t>(s * D + d);
          a += our_q[i] * our_k[j], b += file_q[i] * file_k[j], size += std::abs(our_q[i] * our_k[j]);
        }
        CHECK(std::abs(a - b) <= 1e-6 * size);  // Rotary's angles are f32
      }
  }
}

TEST_CASE("copy_in undoes copy_out, from any floating-point dtype") {
  tt::Llama model(kLlama), other(kLlama);
  const std::vector<gguf::Place> from = gguf::layout_of(model), to = gguf::layout_of(other);
  for (size_t i = 0; i < from.size(); ++i)
    gguf::copy_in(to[i], gguf::copy_out(from[i]).to(tt::f64), tt::Loc::current());
  const tt::StateDict one = model.state_dict(), two = other.state_dict();
  for (const auto& item : one) {
    CAPTURE(item.first);
    CHECK(files::same(item.second.to(tt::cpu), two.at(item.first).to(tt::cpu)));
  }
}
