#include <tinytorch/pruning/report.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace test;

TEST_CASE("masks alone are reported as mask only; a sparse format is reported with its bytes") {
  tt::Generator g(3);
  tt::Linear layer(128, 64, true, g);
  const tt::PruningReport dense = tt::pruning_report(layer);
  CHECK_FALSE(dense.mask_only());
  CHECK(dense.layers.at(0).storage == "dense");
  CHECK(dense.bytes == 4 * (128 * 64 + 64));
  {
    const tt::NoGrad no_grad;
    layer.weight.copy_(tt::masked(layer.weight, tt::magnitude_mask(layer.weight, 0.75)));
  }
  const tt::PruningReport masks = tt::pruning_report(layer);
  CHECK(masks.mask_only());
  CHECK(masks.bytes == dense.bytes);
  CHECK(masks.layers.at(0).sparsity == 0.75);
  CHECK(masks.text().find("mask only: neither size nor time changed") != std::string::npos);
  CHECK(masks.json().find("\"mask only\"") != std::string::npos);
  const tt::Linear* const before = &layer;
  auto stored = tt::store_sparse(layer, "bitmap");
  const tt::PruningReport sparse = tt::pruning_report(*before);
  CHECK_FALSE(sparse.mask_only());
  CHECK(sparse.dense_bytes == dense.bytes);
  CHECK(sparse.bytes == stored->weight().bytes() + 4 * 64);
  CHECK(sparse.layers.at(0).storage == "bitmap");
  CHECK(sparse.layers.at(0).sparsity == 0.75);
  CHECK(sparse.text().find("mask only") == std::string::npos);
  CHECK(sparse.json().find("\"smaller\"") != std::string::npos);
}
