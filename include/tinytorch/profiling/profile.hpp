// Profile: the recorded ops and scopes of a profiled program, which profiler.hpp fills and tables and traces
// read.
//
//   ops      every observed call: start, duration, FLOPs and bytes, forward or backward
//   scopes   the spans in which ops ran, as a tree: the root, a model, its layers
//
// Times are in seconds. `seconds` is measured by the host's clock. `device_seconds` is the time in which the
// device was busy, which equals `seconds` on the CPU. FLOPs and bytes are those that primitives state
// (tensor/primitive.hpp), where each operand counts once.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tinytorch/tensor/primitive.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct ScopeRecord {
  // The path of a module in the model, "blocks.0.attention", or the name of another scope; "" for the root.
  std::string path;
  int32_t parent = -1;  // index into Profile::scopes; -1 for the root, which is scope 0
  double start = 0;     // since the profile began
  double seconds = 0;
};

struct OpRecord {
  std::string name;
  int32_t scope = 0;    // the innermost scope; in the backward pass, that of the forward op
  int32_t parent = -1;  // index of the op that called it; -1 for none
  bool backward = false;
  double start = 0;  // since the profile began
  double seconds = 0;
  double device_start = 0, device_seconds = 0;         // on the CPU equal to start and seconds
  double inner_seconds = 0, inner_device_seconds = 0;  // time of the ops that it called, with their callees
  Cost cost;
  std::vector<Shape> inputs;  // [] for undefined operands
  DType dtype = DType::f32;   // dtype of the first output
  Device device;

  // The device time of this op without its callees. At least 0, because clocks may differ slightly.
  double self_seconds() const { return std::max(0.0, device_seconds - inner_device_seconds); }
};

struct Profile {
  std::vector<ScopeRecord> scopes;
  std::vector<OpRecord> ops;
  double seconds = 0;  // total duration

  // The total time in ops, without double counting. The rest of `seconds` is the program between ops.
  double op_seconds() const {
    double sum = 0;
    for (const OpRecord& op : ops) sum += op.self_seconds();
    return sum;
  }
  // The work of the outermost ops, which includes the work of their callees.
  Cost cost() const {
    Cost sum;
    for (const OpRecord& op : ops) {
      if (op.parent >= 0) continue;
      sum.flops += op.cost.flops;
      sum.bytes += op.cost.bytes;
    }
    return sum;
  }
};

// ---- tables

// A row of a table: all calls with one key.
struct ProfileRow {
  std::string name;
  bool backward = false;
  int64_t calls = 0;
  double seconds = 0;  // on the device, without callees
  Cost cost;

  double flops_per_second() const { return seconds > 0 ? cost.flops / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? cost.bytes / seconds : 0; }
  double intensity() const { return cost.bytes > 0 ? cost.flops / cost.bytes : 0; }  // FLOP per byte
};
using ProfileTable = std::vector<ProfileRow>;  // longest first

// Sorts rows by time, longest first, then by name, then forward before backward. It is not part of
// table_of(), which is instantiated for every type of key.
inline void sort_rows(ProfileTable& table) {
  std::sort(table.begin(), table.end(), [](const ProfileRow& a, const ProfileRow& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.name != b.name ? a.name < b.name : a.backward < b.backward;
  });
}

// One row for each name that `key(op)` returns, separately for forward and backward calls. Each op counts as
// a call of its row and adds its own time; only outermost ops add their work. Sorted by sort_rows().
template <class Key>
ProfileTable table_of(const Profile& profile, Key&& key) {
  std::map<std::pair<std::string, bool>, ProfileRow> rows;
  for (const OpRecord& op : profile.ops) {
    ProfileRow& row = rows[{key(op), op.backward}];
    row.calls += 1;
    row.seconds += op.self_seconds();
    if (op.parent >= 0) continue;
    row.cost.flops += op.cost.flops;
    row.cost.bytes += op.cost.bytes;
  }
  ProfileTable table;
  for (auto& [name, row] : rows) {
    row.name = name.first;
    row.backward = name.second;
    table.push_back(std::move(row));
  }
  sort_rows(table);
  return table;
}

inline ProfileTable by_op(const Profile& profile) {
  return table_of(profile, [](const OpRecord& op) { return op.name; });
}

// "linear [32, 768] [768, 3072]": calls of one op with operands of one shape.
inline ProfileTable by_shape(const Profile& profile) {
  return table_of(profile, [](const OpRecord& op) {
    std::string name = op.name;
    for (const Shape& shape : op.inputs) name += " " + shape.str();
    return name;
  });
}

// Groups by the path of the scope. `depth` limits the number of names in a path: 2 turns
// "blocks.0.attention.qkv" into "blocks.0".
inline ProfileTable by_module(const Profile& profile, int depth = 1000) {
  const auto cut = [depth](const std::string& path) {
    size_t end = 0;
    for (int names = 0; names < depth; ++names) {
      end = path.find('.', end + (names > 0));
      if (end == std::string::npos) return path;
    }
    return path.substr(0, end);
  };
  return table_of(
      profile, [&](const OpRecord& op) { return cut(profile.scopes[static_cast<size_t>(op.scope)].path); });
}

}  // namespace tinytorch::inline TT_BUILD::profiling
