// The learning curve of a model: its loss and its quality after each epoch.
#pragma once

#include <string>
#include <vector>

namespace tinymlperf {

struct TrainingCurve {
  std::string name;
  std::vector<double> epoch, loss, validation;  // quality on samples that are not trained on
  double seconds = 0;
};

}  // namespace tinymlperf
