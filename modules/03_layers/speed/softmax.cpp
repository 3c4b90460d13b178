#include <support/speed.hpp>
#include <tinytorch/backend/cpu/softmax.hpp>

namespace {

course::Work softmax(int64_t rows, int64_t columns) {
  using namespace course;
  const Held x = random(f32, {rows, columns}, -4, 4), out = empty(f32, {rows, columns});
  return {"softmax of the rows of f32 " + x->shape().str(), 8.0 * static_cast<double>(rows * columns), 0,
          [=] { backend::cpu::softmax(out->view(), x->view(), 1); }};
}

}  // namespace

std::vector<course::Work> course::works() { return {softmax(8192, 32), softmax(16, 16384)}; }
