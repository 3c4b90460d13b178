// Profile: what a profiled piece of a program did, as data. profiler.hpp fills it, tables and traces read it.
//
//   ops      every call that passed the gate: when, how long, how many FLOPs and bytes, forward or backward
//   scopes   the spans they ran in, a tree: the whole, a model, its layers
// Times are seconds. `seconds` is the host's clock; `device_seconds` is what the device was busy, which on
// the CPU is the same. FLOPs and bytes are those that primitives state (tensor/primitive.hpp): each operand
// once.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tinytorch/tensor/primitive.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct ScopeRecord {
  std::string path;  // of a module: its name in the model, "blocks.0.attention"; else the scope's own; "" of
                     // the whole
  int32_t parent = -1;  // index into Profile::scopes; -1 for the whole, which is scope 0
  double start = 0;     // since the profile began
  double seconds = 0;
};

struct OpRecord {
  std::string name;
  int32_t scope = 0;    // the innermost it ran in; in the backward pass, where its forward op ran
  int32_t parent = -1;  // the op that called it, -1 for none
  bool backward = false;
  double start = 0;  // since the profile began
  double seconds = 0;
  double device_start = 0, device_seconds = 0;  // on the CPU the same as start and seconds
  double inner_seconds = 0,
         inner_device_seconds = 0;  // of the ops it called itself, with all that these called
  Cost cost;
  std::vector<Shape> inputs;  // undefined operands as []
  DType dtype = DType::f32;   // of the first output
  Device device;

  // What the device was busy with it alone. Clocks may disagree by a little: never below 0.
  double self_seconds() const { return std::max(0.0, device_seconds - inner_device_seconds); }
};

struct Profile {
  std::vector<ScopeRecord> scopes;
  std::vector<OpRecord> ops;
  double seconds = 0;  // from the first moment to the last

  // Time in ops, each counted once. The rest of `seconds` is the program between them.
  double op_seconds() const {
    double sum = 0;
    for (const OpRecord& op : ops) sum += op.self_seconds();
    return sum;
  }
  // Work of the ops that no other op called: those tell their callees' work as well.
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

// One line of a table: all calls with one key.
struct ProfileRow {
  std::string name;
  bool backward = false;
  int64_t calls = 0;
  double seconds = 0;  // on the device, without what ops called by these took
  Cost cost;

  double flops_per_second() const { return seconds > 0 ? cost.flops / seconds : 0; }
  double bytes_per_second() const { return seconds > 0 ? cost.bytes / seconds : 0; }
  double intensity() const { return cost.bytes > 0 ? cost.flops / cost.bytes : 0; }  // FLOP per byte
};
using ProfileTable = std::vector<ProfileRow>;  // longest first

// Longest first; of equal ones by name, forward first. Not in table_of(), of which there is one for every
// kind of key.
inline void sort_rows(ProfileTable& table) {
  std::sort(table.begin(), table.end(), [](const ProfileRow& a, const ProfileRow& b) {
    if (a.seconds != b.seconds) return a.seconds > b.seconds;
    return a.name != b.name ? a.name < b.name : a.backward < b.backward;
  });
}

// One row for each name that `key(op)` gives, and of a name one for forward calls and one for backward calls.
// Every op is a call of its row and adds its own time. Work is added for ops that no other op called. In the
// order of sort_rows().
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

// By the path of the scope they ran in. With `depth`, paths are cut after so many names: 2 makes
// "blocks.0" of "blocks.0.attention.qkv".
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
