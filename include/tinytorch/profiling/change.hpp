// A change and what it brought: the profile before, the profile after, and Amdahl's law in between.
//
//   const Change c = compare_profiles(before, after, {"naive_product", "product"});
//   c.part->predicted, c.part->measured       // times the whole should have become faster, and has
// The part that was changed is one op, or several that belong together: where one op was replaced by another,
// both.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <tinytorch/profiling/amdahl.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

// An op's time in a step, before and after.
struct OpChange {
  std::string op;
  double before = 0, after = 0;  // seconds
  double difference() const { return after - before; }
};

struct Change {
  double before = 0, after = 0;     // seconds of a step
  std::vector<OpChange> ops;        // by how much they changed, most first
  std::string part_name;            // "naive_product + product"
  std::optional<AmdahlCheck> part;  // nothing where the part took no time before
};

// One step of several that were profiled together: every time is the mean of its.
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

// As if all ops of the part were one.
inline Profile with_part(Profile profile, const std::vector<std::string>& part, const std::string& name) {
  for (OpRecord& op : profile.ops)
    if (std::find(part.begin(), part.end(), op.name) != part.end()) op.name = name;
  return profile;
}

}  // namespace detail

// `part`: names of ops; none: the op that changed most of those that there were before. Both profiles of one
// step.
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
