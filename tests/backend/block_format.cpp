#include <doctest/doctest.h>

#include <set>
#include <string>
#include <tinytorch/backend/cpu/block_linear.hpp>

using namespace tinytorch;

TEST_CASE("the bytes of a row and the bits of a number follow from the block, and names are unique") {
  std::set<std::string> names;
  std::set<int32_t> types;
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    CHECK(names.insert(f.name).second);
    CHECK(types.insert(f.gguf_type).second);
    CHECK(find_block_format(f.name) == &f);
    CHECK(f.row_bytes(0) == 0);
    CHECK(f.row_bytes(3 * f.block) == 3 * f.bytes);
    CHECK(f.bits_per_weight() * static_cast<double>(f.block) == 8.0 * static_cast<double>(f.bytes));
  }
  CHECK(find_block_format("Q4_0")->bits_per_weight() == 4.5);
  CHECK(find_block_format("no such format") == nullptr);
}
