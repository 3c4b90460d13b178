// A test that runs matches of device code is also the worker that the judge starts
// (tinymlperf/device/work.hpp). It runs in main(), not before, because the program's kernels must be
// registered first.
#pragma once

#include <support/other_work.hpp>
#include <tinymlperf/device/work.hpp>

namespace test {

inline const bool starts_as_device_worker = [] {
  other_works().push_back(&tinymlperf::device::maybe_work);
  return true;
}();

}  // namespace test
