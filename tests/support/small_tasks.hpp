// Operations of the kernel benchmark with small shapes.
#pragma once

#include <algorithm>
#include <string>
#include <tinymlperf/ops/tasks.hpp>
#include <vector>

namespace test {

// The named operations. Sizes of the public shapes are divided by `divide`, but are at least `least`; sizes
// of hidden shapes are at most `most`.
inline std::vector<tinymlperf::judge::kernels::KernelTask> small_tasks(const std::vector<std::string>& names,
                                                                       int64_t divide, int64_t least,
                                                                       int64_t most) {
  std::vector<tinymlperf::judge::kernels::KernelTask> out;
  for (const std::string& name : names) {
    auto& task = out.emplace_back(tinymlperf::judge::kernels::task_named(name));
    for (auto& sides : task.shapes)
      for (int64_t& side : sides) side = std::max(least, side / divide);
    task.most.assign(task.most.size(), most);
  }
  return out;
}

}  // namespace test
