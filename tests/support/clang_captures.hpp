// INFO and CAPTURE of doctest for clang++ before 16, which does not let a lambda use the names of structured
// bindings: doctest evaluates its operands in a lambda, here they become text at once. CMake includes this
// file first in every test that such a compiler compiles.
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <utility>

namespace test {

// The text of `Joined() * a << b, c`, in which doctest writes the operands of INFO and of the messages of
// checks.
class Joined {
 public:
  template <class T>
  Joined&& operator*(const T& value) && {
    doctest::detail::MessageBuilder builder("", 0, doctest::assertType::is_warn);
    builder.m_stream = &stream_;
    builder* value;
    return std::move(*this);
  }
  template <class T>
  Joined&& operator<<(const T& value) && {
    return std::move(*this) * value;
  }
  template <class T>
  Joined&& operator,(const T& value) && {
    return std::move(*this) * value;
  }
  operator std::string() && { return stream_.str(); }

 private:
  std::ostringstream stream_;
};

}  // namespace test

#undef DOCTEST_INFO_IMPL
#define DOCTEST_INFO_IMPL(builder_name, stream_name, ...)                                                  \
  auto DOCTEST_ANONYMOUS(DOCTEST_CAPTURE_) =                                                               \
      doctest::detail::MakeContextScope([text = static_cast<std::string>((test::Joined() * __VA_ARGS__))]( \
                                            std::ostream* stream_name) { *stream_name << text; })
