// The models that every benchmark starts with (Descriptor::recipes). Each is written as its model.json would
// be, so that the bundled entries pass the same reader as anyone else's.
#pragma once

#include <cstdint>
#include <string>
#include <tinymlperf/entries/entry.hpp>
#include <vector>

namespace tinymlperf {

struct Recipe {
  EntrySpec spec;
  int64_t epochs = 0;
  double learning_rate = 0;  // the highest one of the schedule
  int64_t batch = 64;
  std::string optimizer = "adamw", schedule = "one_cycle";  // as in TrainingSpec
};

// What it is before anybody has trained it, which is what an entry of ttq says.
inline EntrySpec untrained(const Recipe& r) {
  EntrySpec spec = r.spec;
  spec.training = TrainingSpec{.optimizer = r.optimizer,
                               .schedule = r.schedule,
                               .learning_rate = r.learning_rate,
                               .batch = r.batch,
                               .epochs = r.epochs};
  return spec;
}

inline std::vector<Recipe> bundled_recipes(std::string_view benchmark = "dig") {
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
