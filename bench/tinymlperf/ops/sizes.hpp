// The sizes of an op's operands, from which all limits follow that a match of kernels needs: those of the
// channel here, that of a GPU's memory in device/measured_op.hpp. A task with larger shapes changes no other
// file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tinymlperf/channel/frame.hpp>
#include <tinymlperf/ops/task.hpp>
#include <vector>

namespace tinymlperf::judge::kernels {

inline size_t bytes_of_operand(const Operand& o) {
  return channel::bytes_of_one(dtype_of(o)) * static_cast<size_t>(count(o.shape));
}
inline size_t input_bytes(const KernelTask& task, const Shape& sides) {
  size_t bytes = 0;
  for (const Operand& o : task.operands(sides)) bytes += bytes_of_operand(o);
  return bytes;
}
inline size_t output_bytes(const KernelTask& task, const Shape& sides) {
  return channel::bytes_of_one(task.result) * static_cast<size_t>(count(task.output(sides)));
}

// The shapes that a match can ask, on the CPU and on a GPU; the largest sides stand for the hidden shapes.
inline std::vector<Shape> largest_shapes(const KernelTask& task) {
  std::vector<Shape> out = task.shapes;
  out.insert(out.end(), task.device_shapes.begin(), task.device_shapes.end());
  out.push_back(task.most);
  return out;
}

// Room for what a message holds beside the numbers of an op: names, shapes, times, a complaint.
constexpr size_t kMessageRoom = size_t{1} << 16;

// Limits for a session that is asked these ops: no question exceeds them, and no right answer.
inline channel::Limits limits_of_messages(const std::vector<KernelTask>& tasks) {
  size_t most = 0;
  for (const KernelTask& task : tasks)
    for (const Shape& sides : largest_shapes(task))
      most = std::max({most, input_bytes(task, sides), output_bytes(task, sides)});
  channel::Limits limits;
  limits.tensors = most + kMessageRoom;
  return limits;
}

}  // namespace tinymlperf::judge::kernels
