#include <doctest/doctest.h>

#include <set>
#include <string>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/io/ggml_types.hpp>

using namespace tinytorch;

TEST_CASE("the formats have the block sizes, bytes and names of the types of GGUF files") {
  std::set<std::string> names;
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(std::string(f.name));
    CHECK(names.insert(f.name).second);
    CHECK(find_block_format(f.name) == &f);
    CHECK(f.row_bytes(0) == 0);
    CHECK(f.row_bytes(5 * f.block) == 5 * f.bytes);
    CHECK(f.bits_per_weight() * static_cast<double>(f.block) == 8.0 * static_cast<double>(f.bytes));
    if (f.gguf_type < 0) continue;
    const GgmlType* const type = find_ggml_type(static_cast<uint32_t>(f.gguf_type));
    REQUIRE(type != nullptr);
    CHECK(std::string(type->name) == f.name);
    CHECK(int64_t{type->block} == f.block);
    CHECK(int64_t{type->bytes} == f.bytes);
  }
  CHECK(names.count("Q4_0") == 1);
  CHECK(find_block_format("q4_0") == nullptr);
}
