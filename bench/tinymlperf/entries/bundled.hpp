// The bundled models of a benchmark (Descriptor::recipes). Each is written as a model.json and read like that
// of any other entry.
#pragma once

#include <cstdint>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <vector>

namespace tinymlperf {

struct Recipe {
  EntrySpec spec;
  int64_t epochs = 0;
  double learning_rate = 0;  // the peak of the schedule
  int64_t batch = 64;
  std::string optimizer = "adamw", schedule = "one_cycle";  // as in TrainingSpec
};

// The entry with its training recipe and without weights, as it is submitted to the ttq benchmarks.
inline EntrySpec untrained(const Recipe& r) {
  EntrySpec spec = r.spec;
  spec.training = TrainingSpec{.optimizer = r.optimizer,
                               .schedule = r.schedule,
                               .learning_rate = r.learning_rate,
                               .batch = r.batch,
                               .epochs = r.epochs};
  return spec;
}

inline std::vector<Recipe> bundled_recipes(std::string_view benchmark = kDigitsBenchmark) {
  const Task& task = task_of(benchmark);
  std::vector<Recipe> recipes;
  for (const BundledModel& m : find_descriptor(benchmark)->recipes()) {
    Json document{{"schema", 1},
                  {"benchmark", task.benchmark},
                  {"name", m.name},
                  {"author", "tinytorch"},
                  {"description", m.description}};
    if (!m.network.contains("type"))
      document["input"] = task.input, document[task.outputs_key] = task.outputs;
    document.update(m.network);
    recipes.push_back({parse_entry(document.dump(), task), m.epochs, m.learning_rate, m.batch});
  }
  return recipes;
}

}  // namespace tinymlperf
