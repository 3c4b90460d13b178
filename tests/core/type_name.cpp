// Readable names of C++ types.
#include <doctest/doctest.h>

#include <tinytorch/core/type_name.hpp>
#include <typeinfo>

namespace tt = tinytorch;

namespace outer::inner {
struct Plain {};
template <class T>
struct Of {};
}  // namespace outer::inner

TEST_CASE("a type name has no namespaces and keeps its template arguments") {
  CHECK(tt::type_name(typeid(outer::inner::Plain).name()) == "Plain");
  CHECK(tt::type_name(typeid(outer::inner::Of<float>).name()) == "Of<float>");
  CHECK(tt::type_name(typeid(outer::inner::Of<outer::inner::Plain>).name()) == "Of<outer::inner::Plain>");
  CHECK(tt::type_name("N9tinytorch8cpu_only6LinearE") == "Linear");
}

TEST_CASE("a text that is not a mangled name is returned unchanged") {
  CHECK(tt::type_name("evaluation of 7") == "evaluation of 7");
  CHECK(tt::type_name("") == "");
}
