#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/lstm_reference.hpp>

using namespace test;
using tinytorch::backend::View;

#if TINYTORCH_WITH_CUDA

TEST_CASE("the cell and its gradients equal the definition, also in rows at rest" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Shape& shape :
       {Shape{1, 1}, Shape{1, 256}, Shape{3, 7}, Shape{33, 33}, Shape{5, 1025}, Shape{0, 4}}) {
    const Shape wide{shape[0], 4 * shape[1]}, column{shape[0]};
    const auto H = static_cast<size_t>(shape[1]);
    for (const DType dtype : kFloating) {
      for (const Layout layout : {Layout::dense, Layout::gaps}) {
        for (const bool rests : {false, true}) {
          if (test::left_out(4)) continue;
          INFO(shape.str(), ", dtype ", static_cast<int>(dtype), ", at rest ", rests);
          DeviceArray gates = fresh.array(dtype, wide, -4, 4, layout),
                      cell = fresh.array(dtype, shape, -2, 2, layout),
                      before = fresh.array(dtype, shape, -1, 1, layout),
                      inside = DeviceArray::from(boolean, column, every_other(shape[0]));
          const Doubles in = rests ? inside.values() : Doubles();
          DeviceArray hidden(dtype, shape), next(dtype, shape, layout), activated(dtype, wide),
              output(dtype, shape);
          kernels::lstm_cell({hidden.view(), next.view(), activated.view(), output.view()}, gates.view(),
                             cell.view(), {rests ? inside.view() : View{}, before.view()});
          const LstmCellReference want =
              lstm_cell_reference(gates.values(), cell.values(), in, before.values(), H);
          check_close(hidden.values(), want.hidden, dtype, 20);
          check_close(output.values(), want.output, dtype, 20);
          check_close(next.values(), want.cell, dtype, 20);
          check_close(activated.values(), want.activated, dtype, 20);

          DeviceArray dh = fresh.array(dtype, shape, -1, 1, layout), dc = fresh.array(dtype, shape, -1, 1),
                      dy = fresh.array(dtype, shape, -1, 1, layout), dgates(dtype, wide, layout),
                      dcell(dtype, shape), dhidden(dtype, shape);
          kernels::lstm_cell_grad({dgates.view(), dcell.view(), dhidden.view()},
                                  {dh.view(), dc.view(), dy.view()}, activated.view(), cell.view(),
                                  next.view(), rests ? inside.view() : View{});
          const LstmCellGradReference grads = lstm_cell_grad_reference(
              dh.values(), dc.values(), dy.values(), activated.values(), cell.values(), next.values(), in, H);
          check_close(dgates.values(), grads.gates, dtype, 40);
          check_close(dcell.values(), grads.cell, dtype, 40);
          check_close(dhidden.values(), grads.hidden, dtype, 40);
        }
      }
    }
  }
}

TEST_CASE("a step may write to its operands, and absent gradients are 0" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  const Shape shape{5, 33}, wide{5, 132};
  DeviceArray gates = fresh.array(f32, wide, -2, 2), cell = fresh.array(f32, shape, -2, 2),
              hidden(f32, shape);
  const LstmCellReference want = lstm_cell_reference(gates.values(), cell.values(), {}, {}, 33);
  const Doubles start = cell.values();
  kernels::lstm_cell({hidden.view(), cell.view(), gates.view(), {}}, gates.view(), cell.view());
  check_close(hidden.values(), want.hidden, f32, 20);
  check_close(cell.values(), want.cell, f32, 20);
  check_close(gates.values(), want.activated, f32, 20);

  DeviceArray before = DeviceArray::from(f32, shape, start), dcell = fresh.array(f32, shape, -1, 1),
              dgates(f32, wide);
  const LstmCellGradReference grads =
      lstm_cell_grad_reference({}, dcell.values(), {}, gates.values(), start, cell.values(), {}, 33);
  kernels::lstm_cell_grad({dgates.view(), dcell.view(), {}}, {{}, dcell.view(), {}}, gates.view(),
                          before.view(), cell.view());
  check_close(dgates.values(), grads.gates, f32, 40);
  check_close(dcell.values(), grads.cell, f32, 40);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
