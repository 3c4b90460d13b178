#include <tinytorch/backend/sparse_view.hpp>

#include <doctest/doctest.h>

namespace backend = tinytorch::backend;

TEST_CASE("a last partial word or block counts, and columns are read in both widths") {
  backend::BitmapView bitmap;
  backend::TwoFourView pairs;
  backend::BsrView blocks;
  blocks.block = 32;
  for (int64_t K = 0; K < 200; ++K) {
    bitmap.columns = pairs.columns = blocks.columns = blocks.rows = K;
    CHECK((bitmap.words() * 64 >= K && bitmap.words() * 64 < K + 64));
    CHECK((pairs.words() * 16 >= K && pairs.words() * 16 < K + 16));
    CHECK((blocks.block_columns() * 32 >= K && blocks.block_columns() * 32 < K + 32));
    CHECK(blocks.block_rows() == blocks.block_columns());
  }
  const uint16_t narrow[] = {7, 65535};
  const uint32_t wide[] = {7, 70000};
  backend::CsrView csr;
  csr.columns_of = narrow;
  CHECK(csr.column(1) == 65535);
  csr.columns_of = wide, csr.narrow = false;
  CHECK(csr.column(1) == 70000);
}
