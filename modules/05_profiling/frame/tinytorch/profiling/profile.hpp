// Profile: the recorded ops and scopes of a profiled program, which profiler.hpp fills and tables and traces
// read.
//
// The frame of a course header: it has the given parts, and includes the functions of task 5.3. It is cut
// from the library's header by modules/frames.py.
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

  double self_seconds() const;  // task 5.3
};

struct Profile {
  std::vector<ScopeRecord> scopes;
  std::vector<OpRecord> ops;
  double seconds = 0;  // total duration

  double op_seconds() const;  // task 5.3
  Cost cost() const;          // task 5.3
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

inline void sort_rows(ProfileTable& table);  // task 5.3
template <class Key>
ProfileTable table_of(const Profile& profile, Key&& key);  // task 5.3

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

inline ProfileTable by_module(const Profile& profile, int depth = 1000);  // task 5.3

}  // namespace tinytorch::inline TT_BUILD::profiling

#include <tasks/profiling/profile.hpp>
