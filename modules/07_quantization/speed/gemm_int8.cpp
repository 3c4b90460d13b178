#include "int8_work.hpp"

std::vector<course::Work> course::works() {
  if (kTimed) return {int8_product(4096, 4096, 4096), int8_product(512, 4096, 4096)};
  return {int8_product(64, 64, 256), int8_product(64, 128, 192)};
}
