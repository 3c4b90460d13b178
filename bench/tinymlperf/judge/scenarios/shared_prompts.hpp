// The prompts of the scenario shared_prefix: groups of users, and the prompts of a group begin alike.
//
//   a group    a system prompt and a salt. The first of its users finds nothing that was kept; the later ones
//              find their common beginning, if the contender keeps it
//   a user     a few bytes behind the system prompt. No two users of a group are alike
//   near miss  a prompt that is almost one of a group: another byte at the start of the system prompt or at
//              its end, or the salt of another group or of nobody. Whoever takes it for one of the group
//              answers a prompt that nobody asked (audit of texts), or breaks the promise of salts (audit
//              A16)
//
// Several groups are open at a time, and their prompts and near misses are mixed at random. A group whose
// users were all asked is replaced by a new one.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tinymlperf/benchmarks/benchmark.hpp>
#include <tinymlperf/benchmarks/prompt.hpp>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinymlperf::judge {

// A character for each prompt, in the marks of a turn (results/evidence.hpp).
struct PrefixMark {
  static constexpr char kFirst = '0', kLater = '1';                            // of a group
  static constexpr char kOtherStart = '2', kOtherSalt = '3', kOtherEnd = '4';  // near misses
};

class SharedPrompts {
 public:
  // All texts are parts of one that no sample shares, so that nothing that was kept of a sample, or learned
  // from it, serves a prompt.
  SharedPrompts(const Generation& text, uint64_t seed)
      : text_(text.other_text(kTextBytes, seed ^ 0x589965CC75374CC3u)), random_(seed) {
    for (Group& g : groups_) g = new_group();
  }

  Prompt next() {
    Group& g = groups_[random_.below(kGroups)];
    mark_ = g.users.empty() ? PrefixMark::kFirst : PrefixMark::kLater;
    if (!g.users.empty() && random_.below(kMissesOf) == 0)
      mark_ = static_cast<char>(PrefixMark::kOtherStart + static_cast<char>(random_.below(3)));
    Prompt out{g.system + new_user(g), kSharedGeneratedBytes, g.salt};
    if (mark_ == PrefixMark::kOtherStart) make_new(g, out, [&] { change(out.text[0], g.system[0]); });
    if (mark_ == PrefixMark::kOtherEnd) change(out.text[kSharedBytes - 1], g.system.back());
    if (mark_ == PrefixMark::kOtherSalt) make_new(g, out, [&] { out.salt = other_salt(g); });
    if (std::ssize(g.users) == kUsers) g = new_group();
    return out;
  }
  // The PrefixMark of the last prompt.
  char mark() const { return mark_; }

  static TextLengths lengths() { return {kSharedBytes + 1, kUserBytes, kSharedGeneratedBytes}; }

 private:
  static constexpr uint64_t kGroups = 3,
                            kMissesOf = 4;  // after the first, one prompt of so many is a near miss
  static constexpr int64_t kUsers = 10, kSaltBytes = 8, kTextBytes = 1 << 18;

  struct Group {
    std::string system, salt;
    std::set<std::string> users;   // texts that were asked, also of near misses
    std::set<std::string> misses;  // salts and beginnings of near misses
  };

  std::string some_text(int64_t bytes) {
    return text_.substr(random_.below(static_cast<uint64_t>(kTextBytes - bytes)), static_cast<size_t>(bytes));
  }
  Group new_group() {
    Group g;
    g.system = some_text(kSharedBytes);
    g.salt = new_salt();
    return g;
  }
  std::string new_salt() {
    std::string out;
    for (int64_t i = 0; i < kSaltBytes; ++i) out += static_cast<char>(random_.below(256));
    return out;
  }
  // Short texts repeat soon, so that another one may have to be longer.
  std::string new_user(Group& g) {
    for (int64_t tries = 0;; ++tries) {
      const int64_t bytes = tries < 20 ? 1 + length_drawn(random_, kUserBytes) : kUserBytes;
      std::string user = some_text(bytes);
      if (g.users.insert(user).second || tries == 40) return user;
    }
  }
  // The salt of a group that is open, or of nobody.
  std::string other_salt(const Group& g) {
    const Group& some = groups_[random_.below(kGroups)];
    return &some == &g ? new_salt() : some.salt;
  }
  // Repeats change() until no near miss of the group had this salt with this beginning: what was kept for an
  // earlier one may serve a later one.
  template <class Change>
  void make_new(Group& g, Prompt& prompt, Change&& change) {
    do change();
    while (!g.misses.insert(prompt.salt + prompt.text.substr(0, kSharedBytes)).second);
  }
  // Replaces a byte by another one of the texts, so that a near miss does not look like one, or by any byte
  // where the texts have few.
  void change(char& byte, char right) {
    do {
      byte = random_.below(16) == 0 ? static_cast<char>(random_.below(256)) : some_text(1)[0];
    } while (byte == right);
  }

  std::string text_;
  tinytorch::Generator random_;
  Group groups_[kGroups];
  char mark_ = PrefixMark::kFirst;
};

}  // namespace tinymlperf::judge
