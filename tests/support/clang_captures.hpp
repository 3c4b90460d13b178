// INFO and CAPTURE of doctest for clang++ before 16, which does not let a lambda use the names of structured
// bindings: doctest evaluates its operands in a lambda, here they become text at once. CMake includes this
// file first in every test that such a compiler compiles.
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace test {

template <class First, class... Rest>
std::string joined(const First& first, const Rest&... rest) {
  std::ostringstream stream;
  doctest::detail::MessageBuilder builder("", 0, doctest::assertType::is_warn);
  builder.m_stream = &stream;
  builder* first;
  (static_cast<void>(builder << rest), ...);
  return stream.str();
}

}  // namespace test

#undef DOCTEST_INFO_IMPL
#define DOCTEST_INFO_IMPL(builder_name, stream_name, ...)                       \
  auto DOCTEST_ANONYMOUS(DOCTEST_CAPTURE_) = doctest::detail::MakeContextScope( \
      [text = test::joined(__VA_ARGS__)](std::ostream* stream_name) { *stream_name << text; })
