// `tinymlperf train --benchmark kws --out FOLDER` trains the bundled models of a benchmark and writes them as
// entries. For ttq-dig and ttq-lm, which measure the training itself, it writes only the recipes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <tinymlperf/benchmarks/task.hpp>
#include <tinymlperf/benchmarks/user_text.hpp>
#include <tinymlperf/commands/exit_status.hpp>
#include <tinymlperf/training/train.hpp>
#include <vector>

namespace tinymlperf {

struct TrainCommand {
  std::string benchmark = kDigitsBenchmark;
  std::filesystem::path out = "build/entries";
  std::string only;               // one of them; empty: all
  std::optional<int64_t> epochs;  // else each recipe's own
  std::optional<TrainingSize> size;
  std::filesystem::path text = {};  // for lm: a text file instead of the generated text
};

namespace detail {

inline std::vector<Recipe> chosen_recipes(const TrainCommand& o) {
  std::vector<Recipe> chosen;
  std::string names;
  for (Recipe& recipe : bundled_recipes(subject_of(o.benchmark))) {
    names += (names.empty() ? "" : ", ") + recipe.spec.name;
    if (!o.only.empty() && recipe.spec.name != o.only) continue;
    recipe.epochs = o.epochs.value_or(recipe.epochs);
    chosen.push_back(std::move(recipe));
  }
  if (chosen.empty())
    throw std::invalid_argument("--only " + o.only + ": the models of " + o.benchmark + " are " + names);
  return chosen;
}

}  // namespace detail

// Exit status: 0 the entries were written, 2 they could not be trained as asked.
inline int run_train(const TrainCommand& o) {
  try {
    const std::vector<Recipe> recipes = detail::chosen_recipes(o);
    if (!o.text.empty() && o.benchmark != "lm")
      throw std::invalid_argument("--text: only lm learns a text, not " + o.benchmark);
    if (is_training(o.benchmark)) {
      for (const Recipe& recipe : recipes) {
        save_recipe(o.out / recipe.spec.name, untrained(recipe));
        fmt::print("wrote {}\n", (o.out / recipe.spec.name).string());
      }
      return kPass;
    }
    const TrainingSize size = o.size.value_or(training_size(o.benchmark));
    const TrainingData data = o.text.empty() ? training_data(o.benchmark, size)
                                             : text_to_learn(size, read_user_text(o.text).to_learn);
    for (const Recipe& recipe : recipes) {
      const std::filesystem::path folder = o.out / recipe.spec.name;
      train_entry(recipe, data, folder);
      fmt::print("wrote {}\n", folder.string());
    }
    return kPass;
  } catch (const std::invalid_argument& e) {
    return detail::complain(e.what());
  }
}

}  // namespace tinymlperf
