// The similarity of a new submission to earlier ones of other users: counted once, when it arrives, and
// stored.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <tinymlperf/board/store/runs.hpp>
#include <tinymlperf/board/store/shingles.hpp>
#include <tinymlperf/board/store/views.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

constexpr double kLeastShare = 0.3;     // a smaller share is not shown
constexpr size_t kMostSimilar = 3;      // lines of a kind
constexpr int64_t kLeastShingles = 16;  // with fewer a share means nothing

namespace detail {

struct Fingerprint {
  const char* kind;
  Hashes hashes;
};
using Fingerprints = std::array<Fingerprint, 2>;

inline Fingerprints fingerprints_of(const bundle::Bundle& b) {
  return {{{"code", code_hashes(b)}, {"weights", weight_hashes(b)}}};
}

inline void keep_fingerprints(Database& db, int64_t id, const Fingerprints& all) {
  for (const Fingerprint& f : all)
    db.run("INSERT INTO fingerprints VALUES(?, ?, ?)", id, f.kind, Blob{bytes_of(f.hashes)});
}

inline Hashes read_fingerprint(Database& db, int64_t id, const char* kind) {
  const auto bytes = db.text("SELECT hashes FROM fingerprints WHERE bundle = ? AND kind = ?", id, kind);
  return bytes ? values_of<uint64_t>(*bytes) : Hashes();
}

inline std::vector<int64_t> ids(Rows r) {
  std::vector<int64_t> out;
  while (r.next()) out.push_back(r.integer(0));
  return out;
}

// The hashes of this board's baselines.
inline Hashes common_ground(Database& db, const char* kind) {
  Hashes all;
  for (const int64_t id : ids(db.query("SELECT DISTINCT bundle FROM baselines"))) {
    const Hashes one = read_fingerprint(db, id, kind);
    all.insert(all.end(), one.begin(), one.end());
  }
  return as_set(std::move(all));
}

inline void keep_similarity(Database& db, int64_t id, int64_t user, const Fingerprint& ours) {
  const Hashes base = common_ground(db, ours.kind);
  const bool code = std::string_view(ours.kind) == "code";
  std::vector<std::pair<int64_t, Common>> alike;
  for (const int64_t other :
       ids(db.query("SELECT id FROM bundles WHERE id < ? AND user <> ? ORDER BY id", id, user))) {
    const Common c = in_common(ours.hashes, read_fingerprint(db, other, ours.kind), base);
    if (c.total >= (code ? kLeastShingles : 1) &&
        static_cast<double>(c.shared) >= kLeastShare * static_cast<double>(c.total))
      alike.emplace_back(other, c);
  }
  std::stable_sort(alike.begin(), alike.end(), [](const auto& a, const auto& b) {  // the first of equal ones
    return a.second.shared * b.second.total > b.second.shared * a.second.total;
  });
  alike.resize(std::min(alike.size(), kMostSimilar));
  for (const auto& [other, c] : alike)
    db.run("INSERT INTO likenesses VALUES(?, ?, ?, ?, ?)", id, ours.kind, other, c.shared, c.total);
}

}  // namespace detail

// Call it inside the transaction that stores the bundle.
inline void insert_similarity(Database& db, int64_t id, int64_t user, const bundle::Bundle& b) {
  const detail::Fingerprints ours = detail::fingerprints_of(b);
  detail::keep_fingerprints(db, id, ours);
  for (const detail::Fingerprint& f : ours) detail::keep_similarity(db, id, user, f);
}

// The most similar first, code before weights.
inline std::vector<Similarity> read_similarity(Database& db, int64_t id) {
  std::vector<Similarity> out;
  for (Rows r = db.query("SELECT l.kind, l.other, b.name, b.manifest, l.shared, l.total FROM likenesses l "
                         "JOIN bundles b ON b.id = "
                         "l.other WHERE l.bundle = ? ORDER BY l.kind, l.shared * 1.0 / l.total DESC, l.other",
                         id);
       r.next();)
    out.push_back({r.text(0), r.integer(1), r.text(2), bundle::parse_manifest(r.text(3)).author, r.integer(4),
                   r.integer(5)});
  return out;
}

}  // namespace tinymlperf::board
