// Row programs: elementwise steps and reductions of rows that run together, row by row.
//
// A softmax that is written as max, sub, exp, sum and div reads and writes its matrix five times. All of it
// depends on one row at a time, so some rows can go through all steps while they are in the cache. The values
// between the steps then need memory for these rows alone.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <tinytorch/acceleration/region.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// The extent of a value that is combined with a matrix: every element of the matrix (full), one number for
// each row (row), one row for all rows (line), or one number (constant).
enum class RowExtent : uint8_t { full, row, line, constant };

struct RowValue {
  RowExtent extent = RowExtent::full;
  DType dtype = DType::f32;
  Shape shape;
};

// `value`: inputs of the program first, then the results of its steps. A step may see a value in another
// shape of as many elements.
struct RowOperand {
  int value = -1;
  Shape shape;
};
struct RowStep {
  std::shared_ptr<const PrimitiveBase> op;  // elementwise, FusedPointwise, or a reduction of each whole row
  std::vector<RowOperand> in;
  std::vector<int> out;
};

// All values are contiguous. The leading dimensions of a shape have `rows` elements together; the trailing
// ones `length`, or one in a number for each row.
struct RowProgram {
  int64_t rows = 0, length = 0;
  std::vector<RowValue> values;
  size_t inputs = 0;  // the first values
  std::vector<RowStep> steps;
  std::vector<int> outputs;                 // numbers of the values that are written to memory
  std::vector<std::vector<int>> last_read;  // of each step: the values that no later step reads

  // Finds the last step that reads each value; call it after all steps were added.
  void find_last_reads() {
    last_read.assign(steps.size(), {});
    std::vector<bool> seen(values.size(), false);
    for (size_t s = steps.size(); s-- > 0;) {
      const auto see = [&](int v) {
        if (!seen[static_cast<size_t>(v)]) last_read[s].push_back(v);
        seen[static_cast<size_t>(v)] = true;
      };
      for (const int v : steps[s].out) see(v);
      for (const RowOperand& o : steps[s].in) see(o.value);
    }
  }
  const RowValue& value(int v) const { return values[static_cast<size_t>(v)]; }
};

// `shape` with `count` instead of `rows` rows: [2, 3, 5] of 6 rows becomes [1, count, 5].
inline Shape with_rows(const Shape& shape, int64_t rows, int64_t count) {
  Shape out = shape;
  int64_t before = 1;
  for (int d = 0; d < shape.size() && rows > 1; ++d) {
    before *= shape[d];
    out[d] = before == rows ? count : 1;
    if (before == rows) break;
  }
  return out;
}

// Computes some rows, whose inputs and results are given.
class RowsRun {
 public:
  RowsRun(const RowProgram& program, int64_t count) : program_(program), count_(count) {
    at_.resize(program.values.size());
  }
  void set(int value, const Tensor& t) { at_[static_cast<size_t>(value)] = t; }
  Shape shape_of(RowExtent extent, const Shape& shape) const {
    const bool by_row = extent == RowExtent::full || extent == RowExtent::row;
    return by_row ? with_rows(shape, program_.rows, count_) : shape;
  }
  void run(Device device) {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const RowStep& step = program_.steps[s];
      Tensors in, out;
      for (const RowOperand& operand : step.in) {
        const Tensor& t = at_[static_cast<size_t>(operand.value)];
        const Shape shape = shape_of(program_.value(operand.value).extent, operand.shape);
        in.push_back(alias(t, shape, contiguous_strides(shape), t.offset()));
      }
      for (const int v : step.out) {
        Tensor& t = at_[static_cast<size_t>(v)];
        const RowValue& value = program_.value(v);
        if (!t.defined()) t = empty(shape_of(value.extent, value.shape), value.dtype, device);
        out.push_back(t);
      }
      step.op->run(in, out);
      for (const int v : program_.last_read[s]) at_[static_cast<size_t>(v)] = Tensor();
    }
  }

 private:
  const RowProgram& program_;
  int64_t count_;
  Tensors at_;
};

// Rows [first, first + count) of a tensor that holds value `v`.
inline Tensor rows_of(const RowProgram& program, int v, const Tensor& t, int64_t first, int64_t count) {
  const RowValue& value = program.value(v);
  if (value.extent == RowExtent::line || value.extent == RowExtent::constant) return t;
  const Shape shape = with_rows(value.shape, program.rows, count);
  const int64_t each = value.extent == RowExtent::full ? program.length : 1;
  return alias(t, shape, contiguous_strides(shape), t.offset() + first * each);
}

// Computes the program by the operations of its steps, some rows at a time: as many as fit into a core's
// caches, or, on a GPU, enough to use all of it. The bits are those of the operations on whole tensors.
inline void run_rows(const RowProgram& program, const Tensors& inputs, const Tensors& outputs) {
  const Device device = outputs[0].device();
  const int64_t elements = device.is_cpu() ? int64_t{1} << 14 : int64_t{1} << 24;
  const int64_t each = std::max<int64_t>(1, elements / program.length);
  const int64_t tiles = ceil_div(program.rows, each);
  // Tiles of equal sizes: the CPU adds a single short row in another way than several.
  const auto tile = [&](int64_t t) {
    const auto begin = [&](int64_t k) { return program.rows / tiles * k + program.rows % tiles * k / tiles; };
    const int64_t first = begin(t), count = begin(t + 1) - first;
    RowsRun run(program, count);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int v = static_cast<int>(k);
      run.set(v, rows_of(program, v, inputs[k], first, count));
    }
    for (size_t k = 0; k < outputs.size(); ++k)
      run.set(program.outputs[k], rows_of(program, program.outputs[k], outputs[k], first, count));
    run.run(device);
  };
  if (!device.is_cpu()) {
    for (int64_t t = 0; t < tiles; ++t) tile(t);
    return;
  }
  parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) tile(t);
  });
}

namespace acceleration {
class DeviceRows;  // device_rows.hpp
}

// A row program as one step of a graph.
struct FusedRows final : Primitive<FusedRows> {
  static constexpr const char* kName = "rows";
  std::shared_ptr<const RowProgram> program;
  std::shared_ptr<acceleration::DeviceRows> on_device;  // its kernel on a GPU; null: the steps one by one
  std::string parts;                                    // "rows(max, sub, exp, sum, div)"
  double work = 0;                                      // FLOPs

  const char* name() const override { return parts.c_str(); }
  Specs infer(const Tensors&, Loc) const override {
    Specs specs;
    for (const int v : program->outputs) specs.push_back({program->value(v).shape, program->value(v).dtype});
    return specs;
  }
  double flops(const Tensors&, const Tensors&) const override { return work; }
  bool differentiable() const override { return false; }
  inline void run(const Tensors& inputs, Tensors& outputs) const override;
};

}  // namespace tinytorch::inline TT_BUILD
