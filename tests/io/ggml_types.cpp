// The table of types is that of the package gguf.
#include <tinytorch/io/ggml_types.hpp>

#include <io/gguf_files.hpp>

namespace tt = tinytorch;
using namespace gguf_files;
using files::contains;
using files::refusal_of;

TEST_CASE("the sizes of all types of ggml are those of the package gguf") {
  const tt::Json json = golden_types();
  const auto& types = *json.find("types")->array();
  CHECK(types.size() == std::size(tt::kGgmlTypes));
  for (const tt::Json& type : types) {
    const std::string name = text_of(type, "name");
    CAPTURE(name);
    const tt::GgmlType* ours = tt::find_ggml_type(name);
    REQUIRE(ours != nullptr);
    CHECK(tt::find_ggml_type(static_cast<uint32_t>(number_of(type, "id"))) == ours);
    CHECK(ours->block == number_of(type, "block"));
    CHECK(ours->bytes == number_of(type, "bytes"));
  }
  CHECK(tt::find_ggml_type("Q4_0")->bits_per_weight() == 4.5);
  CHECK(tt::find_ggml_type(4) == nullptr);
  CHECK(tt::find_ggml_type("q4_0") == nullptr);
  for (const tt::DType dtype : files::all_dtypes()) {
    const tt::GgmlType* plain = tt::ggml_type_of(dtype);
    CHECK((plain == nullptr) == (dtype == tt::u8 || dtype == tt::boolean));
    if (plain) CHECK(plain->bytes == tt::size_of(dtype));
    if (plain) CHECK(tt::plain_dtype(*plain) == dtype);
  }
  CHECK(!tt::plain_dtype(*tt::find_ggml_type("I16")));
  CHECK(!tt::plain_dtype(*tt::find_ggml_type("Q8_0")));
}
