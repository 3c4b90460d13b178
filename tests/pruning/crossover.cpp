#include <tinytorch/pruning/crossover.hpp>

#include <io/files.hpp>
#include <pruning/formats.hpp>

using namespace test;

namespace {

// Ratios that are powers of two, so that interpolation can be checked by hand.
tt::CrossoverTable made_table() {
  tt::CrossoverTable t{1, 64, "f32", "cpu"};
  const auto add = [&](const char* format, double sparsity, double ratio) {
    t.points.push_back({format, sparsity, ratio * 1e-3, 1e-3, ratio, 1000, 500});
  };
  add("csr", 0, 0.25), add("csr", 0.4, 0.5), add("csr", 0.8, 2), add("csr", 0.9, 8);
  add("bitmap", 0, 0.9), add("bitmap", 0.5, 1.8), add("bitmap", 0.9, 3.6);
  add("bsr16", 0, 0.5), add("bsr16", 0.9, 0.9);
  return t;
}

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear hidden{64, 64, true, g}, middle{64, 64, true, g}, out{64, 16, true, g};
  Net() { add("hidden", hidden), add("middle", middle), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(middle(tt::relu(hidden(x))))); }
};

}  // namespace

TEST_CASE("ratios are interpolated by their logarithms, and a crossover holds for all larger sparsities") {
  tt::CrossoverTable t = made_table();
  CHECK(*t.ratio("csr", 0.4) == 0.5);
  CHECK(*t.ratio("csr", 0.6) == doctest::Approx(1));
  CHECK(*t.ratio("csr", 0.85) == doctest::Approx(4));
  CHECK(*t.ratio("csr", 0.99) == 8);
  CHECK(*t.ratio("csr", 0.2) == doctest::Approx(std::sqrt(0.125)));
  CHECK_FALSE(t.ratio("coo", 0.5));
  CHECK(*t.crossover("csr") == doctest::Approx(0.6));
  CHECK_FALSE(t.crossover("bsr16"));
  CHECK_FALSE(t.crossover("coo"));
  CHECK(t.formats() == std::vector<std::string>{"csr", "bitmap", "bsr16"});
  t.points.push_back({"csr", 0.95, 1, 1, 0.9, 1000, 500});  // slower again: it never is for good
  CHECK_FALSE(t.crossover("csr"));
  t.points.insert(t.points.begin(), {"2:4", 0.5, 1, 1, 1.5, 1000, 500});
  CHECK(*t.crossover("2:4") == 0.5);
}

TEST_CASE("the format with the largest ratio is chosen by the sparsity of elements or blocks, else dense") {
  const tt::CrossoverTable t = made_table();
  const tt::Tensor dense = sparse_matrix(64, 64, 1, 1);
  const auto with = [&](double sparsity) { return tt::masked(dense, tt::magnitude_mask(dense, sparsity)); };
  CHECK(tt::choose_format(with(0), t).empty());
  CHECK(tt::choose_format(with(0.05), t).empty());
  CHECK(tt::choose_format(with(0.5), t) == "bitmap");
  CHECK(tt::choose_format(with(0.9), t) == "csr");
  CHECK(tt::choose_format(with(0.5), t, 2.5).empty());
  // One of 16 blocks is used, with all its numbers; elements are at 0.9375.
  tt::Tensor block = tt::zeros({64, 64});
  block.slice(0, 16, 32).slice(1, 32, 48).fill_(1);
  CHECK(tt::pruning::block_sparsity(block, 16) == doctest::Approx(15.0 / 16));
  CHECK(tt::pruning::block_sparsity(tt::ones({17, 33}), 16) == 0);
  tt::CrossoverTable blocks{1, 64, "f32", "cpu"};
  blocks.points.push_back({"bsr16", 0.9, 4, 1, 4, 1000, 100});
  blocks.points.push_back({"strips", 0.5, 8, 1, 8, 1000, 563});
  CHECK(tt::choose_format(block, blocks) == "bsr16");  // strips need 16 bits and two of four
  CHECK(tt::choose_format(tt::masked(dense, tt::nm_mask(dense, 2, 4)).to(tt::bf16), blocks) == "strips");
  Net net;
  {
    const tt::NoGrad no_grad;
    net.hidden.weight.copy_(tt::masked(net.hidden.weight, tt::magnitude_mask(net.hidden.weight, 0.9)));
    net.out.weight.copy_(tt::masked(net.out.weight, tt::magnitude_mask(net.out.weight, 0.5)));
  }
  const tt::NoGrad no_grad;
  tt::Generator g(4);
  const tt::Tensor x = tt::randn({2, 64}, tt::f32, tt::cpu, g), before = net(x);
  CHECK(tt::store_faster(net, t) == 2);
  CHECK(std::dynamic_pointer_cast<tt::SparseLinear>(net.hidden.replacement())->weight().format() == "csr");
  CHECK(std::dynamic_pointer_cast<tt::SparseLinear>(net.out.replacement())->weight().format() == "bitmap");
  CHECK_FALSE(net.middle.replacement());
  CHECK(tt::max(tt::abs(net(x) - before)).item<double>() < 1e-5);
}

TEST_CASE("a sweep times every format at every sparsity, with the bytes of the formats") {
  for (const tt::DType t : {tt::f32, tt::bf16}) {
    const tt::CrossoverTable table = tt::measure_crossover({.rows = 3,
                                                            .size = 64,
                                                            .dtype = t,
                                                            .device = tt::cpu,
                                                            .sparsities = {0, 0.5, 0.9},
                                                            .rounds = 1,
                                                            .seconds = 0});
    CHECK(table.points.size() == (t == tt::f32 ? 15u : 16u));
    CHECK(table.dtype == tt::name_of(t));
    const int64_t element = t == tt::f32 ? 4 : 2;
    for (const tt::CrossoverPoint& p : table.points) {
      CHECK(p.dense_seconds > 0);
      CHECK(p.ratio == doctest::Approx(p.dense_seconds / p.sparse_seconds));
      CHECK(p.dense_bytes == 64 * 64 * element);
      if (p.format == "bitmap") {
        const double kept = (1 - p.sparsity) * 64 * 64;  // exact counts, then a bit each and offsets
        CHECK(p.bytes >= std::llround(kept) * element + 512);
        CHECK(p.bytes <= std::llround(kept) * element + 512 + 65 * 8 + 64);
      }
      if (p.format == "strips") CHECK(p.bytes == 4 * 1152);
    }
    CHECK(table.text().find("bitmap") != std::string::npos);
    CHECK(table.html().find("<svg") != std::string::npos);
  }
  const auto code = [](const tt::CrossoverOptions& o) {
    return errors::thrown_by([&] { (void)tt::measure_crossover(o); }).code;
  };
  CHECK(code({.rows = 0}) == "TT-PRUNE-02");
  CHECK(code({.size = 100}) == "TT-PRUNE-02");
  CHECK(code({.size = 64, .sparsities = {0.5, 0.2}}) == "TT-PRUNE-02");
  CHECK(code({.size = 64, .sparsities = {1}}) == "TT-PRUNE-02");
  CHECK(code({.size = 64, .formats = {"coo"}}) == "TT-PRUNE-01");
  CHECK(code({.size = 64, .device = tt::cpu, .formats = {"2:4"}, .sparsities = {0}}) == "TT-PRUNE-01");
  CHECK(errors::thrown_by([] { (void)tt::choose_format(tt::ones({3}), made_table()); }).code ==
        "TT-SHAPE-02");
}

TEST_CASE("tables come back from JSON, and other files are refused") {
  const files::TempFolder folder;
  const tt::CrossoverTable t = made_table();
  tt::save_crossover(t, folder / "t.json");
  const tt::CrossoverTable back = tt::load_crossover(folder / "t.json");
  CHECK(back.json() == t.json());
  REQUIRE(back.points.size() == t.points.size());
  for (size_t i = 0; i < t.points.size(); ++i) {
    CHECK(back.points[i].format == t.points[i].format);
    CHECK(back.points[i].ratio == doctest::Approx(t.points[i].ratio).epsilon(1e-9));
    CHECK(back.points[i].bytes == t.points[i].bytes);
  }
  tt::save_crossover_page(t, folder / "t.html");
  CHECK(tt::load_text(folder / "t.html").find("csr is faster from a sparsity of 0.60") != std::string::npos);
  const auto code = [&](const std::string& text) {
    tt::write_file(folder / "bad.json", text);
    return errors::thrown_by([&] { (void)tt::load_crossover(folder / "bad.json"); }).code;
  };
  CHECK(code("{") == "TT-IO-03");
  CHECK(code("[]") == "TT-IO-04");
  CHECK(code("{\"kind\": \"other\"}") == "TT-IO-04");
  std::string text = t.json();
  text.replace(text.find("\"ratio\": "), 9, "\"ration\": ");
  CHECK(code(text) == "TT-IO-03");
  CHECK(errors::thrown_by([&] { (void)tt::load_crossover(folder / "none"); }).code == "TT-IO-01");
}
