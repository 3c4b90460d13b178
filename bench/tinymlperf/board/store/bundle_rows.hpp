// A bundle as rows of the database, and what the closed division asks of its model.
#pragma once

#include <string>
#include <string_view>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/board/store/database.hpp>
#include <tinymlperf/board/store/similarity.hpp>
#include <tinymlperf/bundle/rules.hpp>

namespace tinymlperf::board {

// Closed means the baseline's model: the same layers, with weights that may be quantized or with another
// recipe. Both models are texts of model.json. Throws Refusal.
inline void require_layers(const std::string& model, const std::string& of_baseline,
                           const std::string& benchmark) {
  const auto layers = [&](const std::string& text) {
    return layers_of_spec(parse_entry(text, task_of(subject_of(benchmark))));
  };
  if (layers(model) != layers(of_baseline))
    throw Refusal(kModelFile, "layers", "those of the baseline, as the closed division asks for", "others");
}

// Call it inside a transaction. Returns the submission's number.
inline int64_t insert_bundle(Database& db, int64_t user, const bundle::Bundle& b, const std::string& bytes,
                             const std::string& created) {
  const int64_t id = db.insert(
      "INSERT INTO bundles(sha256, user, name, division, tier, hardware, manifest, content, created) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
      b.id, user, b.manifest.name, b.manifest.division, b.manifest.tier, b.manifest.hardware, b.manifest_text,
      Blob{bytes}, created);
  for (size_t i = 0; i < b.files.size(); ++i) {
    const bundle::FileRecord& file = b.manifest.files[i];
    db.run("INSERT INTO files VALUES(?, ?, ?, ?, ?)", id, file.path, file.bytes, file.sha256,
           bundle::is_shown(b.files[i]) ? std::string_view(b.files[i].content) : std::string_view());
  }
  for (const std::string& benchmark : b.manifest.benchmarks)
    db.run("INSERT INTO subjects VALUES(?, ?)", id, benchmark);
  insert_similarity(db, id, user, b);
  return id;
}

}  // namespace tinymlperf::board
