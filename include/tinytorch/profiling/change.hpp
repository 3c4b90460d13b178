// The effect of a change: the profiles before and after it, compared by Amdahl's law.
//
//   const Change c = compare_profiles(before, after, {"naive_product", "product"});
//   c.part->predicted, c.part->measured       // predicted and measured speedup of the whole
//
// The changed part is one op, or several ops together: if one op was replaced by another, both of them.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <tinytorch/profiling/amdahl.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

// The time of an op in a step, before and after.
struct OpChange {
  std::string op;
  double before = 0, after = 0;  // seconds
  double difference() const { return after - before; }
};

struct Change {
  double before = 0, after = 0;     // seconds of a step
  std::vector<OpChange> ops;        // sorted by absolute change, largest first
  std::string part_name;            // "naive_product + product"
  std::optional<AmdahlCheck> part;  // nullopt if the part took no time before
};

// The mean step of a profile of several steps: all times are divided by `steps`.
inline Profile mean_step(Profile profile, int64_t steps) {
  const auto n = static_cast<double>(steps);
  profile.seconds /= n;
  for (OpRecord& op : profile.ops) {
    op.seconds /= n, op.inner_seconds /= n;
    op.device_seconds /= n, op.inner_device_seconds /= n;
  }
  return profile;
}

namespace detail {

inline std::vector<OpChange> op_changes(const Profile& before, const Profile& after) {
  std::map<std::string, OpChange> all;
  for (const ProfileRow& row : by_op(before)) all[row.name].before += row.seconds;
  for (const ProfileRow& row : by_op(after)) all[row.name].after += row.seconds;
  std::vector<OpChange> out;
  for (auto& [name, change] : all) {
    change.op = name;
    out.push_back(std::move(change));
  }
  std::stable_sort(out.begin(), out.end(), [](const OpChange& a, const OpChange& b) {
    return std::abs(a.difference()) > std::abs(b.difference());
  });
  return out;
}

// Renames all ops of the part to `name`, so that they count as one op.
inline Profile with_part(Profile profile, const std::vector<std::string>& part, const std::string& name) {
  for (OpRecord& op : profile.ops)
    if (std::find(part.begin(), part.end(), op.name) != part.end()) op.name = name;
  return profile;
}

}  // namespace detail

// `part` lists names of ops; if empty, it is the op with the largest change among those with time before.
// Both profiles must be of one step.
inline Change compare_profiles(const Profile& before, const Profile& after,
                               std::vector<std::string> part = {}) {
  Change c{before.seconds, after.seconds, detail::op_changes(before, after), "", {}};
  for (size_t i = 0; i < c.ops.size() && part.empty(); ++i)
    if (c.ops[i].before > 0) part.push_back(c.ops[i].op);
  double part_before = 0;
  for (const OpChange& op : c.ops)
    if (std::find(part.begin(), part.end(), op.op) != part.end()) part_before += op.before;
  for (const std::string& name : part) c.part_name += (c.part_name.empty() ? "" : " + ") + name;
  if (part_before > 0)
    c.part = check_amdahl(detail::with_part(before, part, c.part_name),
                          detail::with_part(after, part, c.part_name), c.part_name);
  return c;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
