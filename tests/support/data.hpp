// Real data for tests. It is never downloaded; it is in $TINYTORCH_DATA, else in ../shared/data beside the
// sources.
//
//   TEST_CASE("MNIST" * test::needs_data("mnist/t10k-images-idx3-ubyte.gz")) {
//     ... test::data_file("mnist/...") ...
//   }
// Without the file, the case is skipped and counted as skipped, never as passed.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <tree/source_folder.hpp>

namespace test {

inline std::string data_file(const std::string& name) {
  const char* set = std::getenv("TINYTORCH_DATA");
  return (set ? std::string(set) : tinytorch_tree::kSourceFolder + std::string("/../shared/data")) + "/" +
         name;
}

inline doctest::skip needs_data(const std::string& name) {
  return doctest::skip(!std::filesystem::exists(data_file(name)));
}

}  // namespace test
