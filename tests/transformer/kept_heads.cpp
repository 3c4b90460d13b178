#include <doctest/doctest.h>

#include <io/files.hpp>
#include <support/errors.hpp>
#include <tinytorch/transformer/gguf.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tinytorch/transformer/kept_heads.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {

// The parts of an attention layer that are read.
struct CountedLayer {
  struct {
    struct {
      int64_t heads, groups, head_size;
    } options;
    struct {
      tt::Tensor weight;
    } qkv;
  } attention;
};

// H heads of 4, of which H / G share keys and values; `kept` groups are left.
CountedLayer counted_layer(int64_t H, int64_t G, int64_t kept) {
  const tt::Tensor w = kept < 0 ? tt::Tensor() : tt::zeros({kept * (H / G + 2) * 4, 8});
  return {{{H, G, 4}, {w}}};
}

}  // namespace

TEST_CASE("heads are counted by the width of packed QKV: every group has its queries, a key and a value") {
  for (const auto& [H, G] : std::vector<std::pair<int64_t, int64_t>>{{12, 12}, {12, 4}, {12, 1}}) {
    for (int64_t kept = 0; kept <= G; ++kept) {
      const auto options = counted_layer(H, G, kept).attention.options;
      const tt::HeadCounts c = tt::head_counts(options, kept * (H / G + 2) * 4);
      CHECK(c.groups == kept);
      CHECK(c.heads == kept * (H / G));
    }
  }
}

TEST_CASE(
    "a cache has the groups that are left; layers that differ are refused; packed layers do not count") {
  const tt::KvShape built{.layers = 3, .groups = 4, .head_size = 4};
  const auto layers = [](int64_t a, int64_t b, int64_t c) {
    return std::vector<CountedLayer>{counted_layer(8, 4, a), counted_layer(8, 4, b), counted_layer(8, 4, c)};
  };
  CHECK(tt::kept_kv_shape(layers(4, 4, 4), built).groups == 4);
  const tt::KvShape kept = tt::kept_kv_shape(layers(-1, 3, 3), built);
  CHECK(kept.groups == 3);
  CHECK(kept.layers == 3);
  CHECK(kept.head_size == 4);
  CHECK(tt::kept_kv_shape(layers(-1, -1, -1), built).groups == 4);
  CHECK(tt::kept_kv_shape(std::vector<CountedLayer>{}, built).groups == 4);
  const auto error = errors::thrown_by([&] { (void)tt::kept_kv_shape(layers(4, 2, 4), built); });
  CHECK(error.code == "TT-KV-01");
  CHECK(error.text.find("4 and 2 groups") != std::string::npos);
}

TEST_CASE("files with one configuration for all layers refuse a pruned model, and nothing is written") {
  const files::TempFolder folder;
  const auto check = [&](auto& model, auto&& layer, int64_t rows, const char* name) {
    const tt::NoGrad no_grad;
    tt::Linear& l = layer(model);
    const tt::Tensor whole = l.weight;
    l.weight = tt::slice(whole, 0, 0, rows);
    for (const bool gguf : {false, true}) {
      const auto error = errors::thrown_by([&] {
        if (gguf)
          tt::save_gguf(model, folder / "model.gguf");
        else
          tt::save_hugging_face(model, folder / "model");
      });
      CHECK(error.code == "TT-NN-24");
      CHECK(error.text.find(name) != std::string::npos);
    }
    l.weight = whole;
    CHECK(std::filesystem::exists(folder / "model.gguf") == false);
    CHECK(std::filesystem::exists(folder / "model/model.safetensors") == false);
  };
  tt::Gpt2 gpt2({.vocabulary = 9, .context = 8, .features = 16, .layers = 2, .heads = 4});
  check(
      gpt2, [](auto& m) -> tt::Linear& { return m.blocks[1].attention.qkv; }, 24, "blocks.1.attention.qkv");
  check(
      gpt2, [](auto& m) -> tt::Linear& { return m.blocks[0].mlp.up; }, 8, "blocks.0.mlp.up");
  tt::Llama llama(
      {.vocabulary = 9, .context = 8, .features = 16, .layers = 2, .heads = 4, .groups = 2, .hidden = 24});
  check(
      llama, [](auto& m) -> tt::Linear& { return m.blocks[1].attention.qkv; }, 16, "blocks.1.attention.qkv");
  check(
      llama, [](auto& m) -> tt::Linear& { return m.blocks[0].mlp.gate_up; }, 16, "blocks.0.mlp.gate_up");
  tt::save_gguf(llama, folder / "model.gguf");
  tt::save_hugging_face(gpt2, folder / "model");
}
