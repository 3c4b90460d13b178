// Each name that a user of PyTorch types on tensors has a line here, with the value that PyTorch gives.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using doctest::Approx;
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

const double kNan = std::nan("");
Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]
double total(const Tensor& x) { return x.to(f64).sum().item<double>(); }

}  // namespace

TEST_CASE("creation") {
  const Tensor x = grid();
  CHECK(tensor({1, 2, 3}).dtype() == i64);
  CHECK(tensor({1, 2, 3}).to_vector<int64_t>() == Integers{1, 2, 3});
  CHECK(tensor({1., 2.5}).dtype() == f32);
  CHECK(tensor({1.f, 2.5f}).to_vector() == Values{1, 2.5});
  CHECK(tensor({true, false}).dtype() == boolean);
  CHECK(tensor(3.5).rank() == 0);
  CHECK(tensor(3.5).item() == 3.5f);
  CHECK(tensor({{1., 2.}, {3., 4.}, {5., 6.}}).shape() == Shape{3, 2});
  CHECK(tensor({{1, 2}, {3, 4}}).to_vector<int64_t>() == Integers{1, 2, 3, 4});
  CHECK(tensor({1, 2}, f32).dtype() == f32);
  CHECK(tensor({0.1}, f64).item<double>() == 0.1);
  CHECK(tensor(std::vector<float>{1, 2}).to_vector() == Values{1, 2});
  test::expect_error("TT-SHAPE-05", "the same length", [] { tensor({{1., 2.}, {3.}}); });
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(zeros(2, 3).shape() == Shape{2, 3});
  CHECK(zeros({2, 3}, i64).dtype() == i64);
  CHECK(ones(2, 3).to_vector() == Values(6, 1));
  CHECK(empty(2, 3).shape() == Shape{2, 3});
  CHECK(full({2, 2}, 7.).to_vector() == Values(4, 7));
  CHECK(full({2}, 3).to_vector() == Values{3, 3});
  CHECK(zeros_like(x).to_vector() == Values(6, 0));
  CHECK(ones_like(x).to_vector() == Values(6, 1));
  CHECK(full_like(x, 2).to_vector() == Values(6, 2));
  CHECK(empty_like(x).shape() == Shape{2, 3});
  CHECK(rand_like(x).shape() == Shape{2, 3});
  CHECK(randn_like(x).shape() == Shape{2, 3});
  CHECK(eye(2).to_vector() == Values{1, 0, 0, 1});
  CHECK(arange(3).to_vector<int64_t>() == Integers{0, 1, 2});
  CHECK(arange(0, 10, 4).to_vector<int64_t>() == Integers{0, 4, 8});
  CHECK(arange(0., 1., 0.5).to_vector() == Values{0, 0.5});
  CHECK(linspace(0, 1, 5).to_vector() == Values{0, 0.25, 0.5, 0.75, 1});
  CHECK(randint(10, {3}).shape() == Shape{3});
  CHECK(total(randint(4, 5, {3})) == 12);
  CHECK(rand(2, 3).shape() == Shape{2, 3});
  CHECK(randn(2, 3).shape() == Shape{2, 3});
  CHECK(total(randperm(5)) == 10);
  CHECK(total(multinomial(tensor({0., 1., 0.}), 1)) == 1);
  CHECK(total(bernoulli(1, {3})) == 3);
}

TEST_CASE("indexing reads") {
  const Tensor x = grid(), m = x > 2, rows = tensor({1, 0});
  CHECK(x[0][1].item() == 1);
  CHECK(x[-1][-1].item() == 5);
  CHECK(x[{0, 1}].item() == 1);
  CHECK(x[{kWholeRange, 1}].to_vector() == Values{1, 4});
  CHECK(x[{kWholeRange, Span{0, 2}}].to_vector() == Values{0, 1, 3, 4});
  CHECK(x[{kWholeRange, Span{0, 3, 2}}].to_vector() == Values{0, 2, 3, 5});
  CHECK(x[m].to_vector() == Values{3, 4, 5});
  CHECK(x[x > 2 && x < 5].to_vector() == Values{3, 4});
  CHECK(x[rows].to_vector() == Values{3, 4, 5, 0, 1, 2});
  CHECK(x.select(0, 1).to_vector() == Values{3, 4, 5});
  CHECK(x.narrow(1, 1, 2).to_vector() == Values{1, 2, 4, 5});
  CHECK(narrow(x, 1, -2, 1).to_vector() == Values{1, 4});
  CHECK(x.unbind()[1].to_vector() == Values{3, 4, 5});
  CHECK(x.masked_select(m).to_vector() == Values{3, 4, 5});
  CHECK(masked_select(x, m).to_vector() == Values{3, 4, 5});
  CHECK(x.nonzero().shape() == Shape{5, 2});
  CHECK(nonzero(x)[0].to_vector<int64_t>() == Integers{0, 1});
  CHECK(x.index_select(1, rows).to_vector() == Values{1, 0, 4, 3});
  CHECK(x.gather(1, tensor({{2}, {0}})).to_vector() == Values{2, 3});
  CHECK(x.take_along_dim(tensor({{2}, {0}}), 1).to_vector() == Values{2, 3});
  CHECK(x.split(2, 1)[1].to_vector() == Values{2, 5});
  CHECK(x.split({1, 2}, 1)[1].to_vector() == Values{1, 2, 4, 5});
  CHECK(x.chunk(3, 1)[2].to_vector() == Values{2, 5});
  CHECK(x.where(m, -1).to_vector() == Values{-1, -1, -1, 3, 4, 5});
  CHECK(x.where(m, -x).to_vector() == Values{0, -1, -2, 3, 4, 5});
  CHECK(where(m, x, 0.).to_vector() == Values{0, 0, 0, 3, 4, 5});
  CHECK(where(m, 1, 0).to_vector<int64_t>() == Integers{0, 0, 0, 1, 1, 1});
}

TEST_CASE("indexing refuses with a sentence that says what to do") {
  const Tensor x = grid();
  test::expect_error("TT-RANGE-04", "outside dimension 0", [&] { x[2]; });
  test::expect_error("TT-RANGE-05", "are not inside the size 3", [&] { x.narrow(1, 2, 2); });
  test::expect_error("TT-SHAPE-13", "a mask has the sizes", [&] { x[tensor({true, false, true})]; });
  test::expect_error("TT-SHAPE-12", "the sizes add up to 2", [&] { x.split({1, 1}, 1); });
  test::expect_error("TT-SHAPE-03", "", [&] { x.sum(2); });
  test::expect_error("TT-DTYPE-06", "x != 0 makes a bool tensor", [&] { x& x; });
  test::expect_error("TT-DTYPE-06", "x != 0 makes a bool tensor", [&] { ~x; });
  test::expect_error("TT-GRAD-04", "wrap the write in a NoGrad scope", [&] {
    Tensor w = grid().requires_grad_();
    w += 1;
  });
  test::expect_error("TT-GRAD-04", "wrap the write in a NoGrad scope", [&] {
    Tensor w = grid().requires_grad_();
    w.exp_();
  });
  test::expect_error("TT-GRAD-06", "only leaves can be changed", [&] {
    Tensor w = grid().requires_grad_();
    Tensor y = w * 2;
    y.requires_grad_(false);
  });
  test::expect_error("TT-DTYPE-02", "", [&] { arange(3).requires_grad_(); });
  test::expect_error("TT-DTYPE-01", "convert first with .to(f32)", [&] { tensor({1, 2}).data<float>(); });
  test::expect_error("TT-SHAPE-06", "reduce it first", [&] { x.item(); });
  test::expect_error("TT-SHAPE-05", "reshape() copies", [&] { x.t().view(6); });
  test::expect_error("TT-SHAPE-02", "matmul multiplies matrices", [&] { x.dot(x); });
}

TEST_CASE("indexing writes") {
  const Tensor m = grid() > 2;
  Tensor a = grid();
  a[0] = 7;
  CHECK(a.to_vector() == Values{7, 7, 7, 3, 4, 5});
  a[1][2] = 0.;
  CHECK(a[1].to_vector() == Values{3, 4, 0});
  a[{kWholeRange, 0}] = tensor({1., 2.});
  CHECK(a.to_vector() == Values{1, 7, 7, 2, 4, 0});
  a = grid();
  a[m] = 0;
  CHECK(total(a) == 3);
  a[tensor({1})] = ones(1, 3);
  CHECK(a[1].to_vector() == Values{1, 1, 1});
  a[tensor({0})] += 1;
  CHECK(a[0].to_vector() == Values{1, 2, 3});
  CHECK(grid().scatter(1, tensor({{0}, {2}}), tensor({{7.}, {8.}})).to_vector() == Values{7, 1, 2, 3, 4, 8});
  CHECK(scatter(grid(), 0, tensor({{1, 0, 1}}), 9).to_vector() == Values{0, 9, 2, 9, 4, 9});
  CHECK(grid().scatter_add(1, tensor({{0, 0}, {1, 1}}), ones(2, 2)).to_vector() == Values{2, 1, 2, 3, 6, 5});
  CHECK(grid().index_add(0, tensor({0, 0}), ones(2, 3))[0].to_vector() == Values{2, 3, 4});
  CHECK(grid().index_fill(1, tensor({0}), -1).to_vector() == Values{-1, 1, 2, -1, 4, 5});
  CHECK(grid().index_put(tensor({1}), zeros(1, 3))[1].to_vector() == Values{0, 0, 0});
  CHECK(total(grid().masked_fill(m, 0)) == 3);
  a = grid();
  CHECK(total(a.scatter_(1, tensor({{0}, {2}}), tensor({{7.}, {8.}}))) == 25);
  CHECK(total(a.scatter_(1, tensor({{0}, {2}}), 0)) == 10);
  CHECK(total(a.scatter_add_(1, tensor({{0}, {2}}), ones(2, 1))) == 12);
  CHECK(total(a.index_add_(0, tensor({0}), ones(1, 3))) == 15);
  CHECK(total(a.index_fill_(0, tensor({0}), 1)) == 11);
  CHECK(total(a.index_put_(tensor({1}), zeros(1, 3))) == 3);
  CHECK(total(a.masked_fill_(a == 1, 2)) == 6);
  CHECK(total(a) == 6);
  // A written position takes part in the graph, and the last of equal positions counts.
  const Tensor w = ones(2).requires_grad_(), base = ones(3).requires_grad_();
  (base.scatter(0, tensor({1, 1}), w) * tensor({1., 2., 3.})).sum().backward();
  CHECK(w.grad().to_vector() == Values{0, 2});
  CHECK(base.grad().to_vector() == Values{1, 0, 3});
}

TEST_CASE("reductions") {
  const Tensor x = grid(), square = arange(9).to(f32).reshape(3, 3);
  CHECK(x.sum(1).to_vector() == Values{3, 12});
  CHECK(sum(x, 1).to_vector() == Values{3, 12});
  CHECK(x.sum(-1).to_vector() == Values{3, 12});
  CHECK(x.sum({0, 1}).item() == 15);
  CHECK(x.sum(1, true).shape() == Shape{2, 1});
  CHECK(x.mean(0).to_vector() == Values{1.5, 2.5, 3.5});
  CHECK(mean(x, 0, true).shape() == Shape{1, 3});
  CHECK(x.max().item() == 5);
  CHECK(x.max(1).values.to_vector() == Values{2, 5});
  CHECK(x.max(1, true).indices.shape() == Shape{2, 1});
  CHECK(x.min(0).indices.to_vector<int64_t>() == Integers{0, 0, 0});
  CHECK(x.max(3 - x).to_vector() == Values{3, 2, 2, 3, 4, 5});
  CHECK(min(x, 3 - x).to_vector() == Values{0, 1, 1, 0, -1, -2});
  CHECK(x.amax(1).to_vector() == Values{2, 5});
  CHECK(x.amin({0, 1}).item() == 0);
  CHECK(x.argmax().item<int64_t>() == 5);
  CHECK(x.argmax(1).to_vector<int64_t>() == Integers{2, 2});
  CHECK(x.argmin(1, true).shape() == Shape{2, 1});
  CHECK(x.prod(1).to_vector() == Values{0, 60});
  CHECK(x.std(1).to_vector() == Values{1, 1});
  CHECK(x.var(1).to_vector() == Values{1, 1});
  CHECK(x.var().item() == Approx(3.5));
  CHECK(x.norm().item() == Approx(std::sqrt(55.)));
  CHECK(x.norm(1).item() == 15);
  CHECK(x.norm(2, 1).to_vector()[1] == Approx(std::sqrt(50.)));
  CHECK(x.norm(1, 1, true).to_vector() == Values{3, 12});
  CHECK(norm(x, INFINITY, 0).to_vector() == Values{3, 4, 5});
  CHECK(norm(x, 3).item() == Approx(std::cbrt(225.)));
  CHECK(x.median().item() == 2);
  CHECK(x.median(1).values.to_vector() == Values{1, 4});
  CHECK(x.quantile(0.5).item() == 2.5);
  CHECK(x.quantile(0.5, 1).to_vector() == Values{1, 4});
  CHECK(x.kthvalue(2, 1).values.to_vector() == Values{1, 4});
  CHECK(kthvalue(-x, 1, 1, true).indices.to_vector<int64_t>() == Integers{2, 2});
  CHECK(x.cumsum(1).to_vector() == Values{0, 1, 3, 3, 7, 12});
  CHECK((x + 1).cumprod(1).to_vector() == Values{1, 2, 6, 4, 20, 120});
  CHECK(x.logsumexp(1)[0].item() == Approx(2.407606));
  CHECK(x.count_nonzero().item<int64_t>() == 5);
  CHECK(x.any(1).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK_FALSE(x.all().item<bool>());
  CHECK(tensor({1., kNan}).nansum().item() == 1);
  CHECK(nanmean(tensor({3., kNan})).item() == 3);
  CHECK(square.trace().item() == 12);
  CHECK(square.diagonal().to_vector() == Values{0, 4, 8});
  CHECK(square.diagonal(1).to_vector() == Values{1, 5});
  CHECK(square.diag(-1).to_vector() == Values{3, 7});
  CHECK(diag(tensor({1., 2.})).to_vector() == Values{1, 0, 0, 2});
  CHECK(x.cov().to_vector() == Values{1, 1, 1, 1});
  CHECK(x.corrcoef()[0][1].item() == Approx(1));
  CHECK(x.histc(3).to_vector() == Values{2, 2, 2});
  CHECK(histogram(x, 3).counts.to_vector() == Values{2, 2, 2});
  CHECK(tensor({0, 2, 2}).bincount().to_vector<int64_t>() == Integers{1, 0, 2});
  CHECK(x.diff().to_vector() == Values{1, 1, 1, 1});
  CHECK(x.softmax(1).sum(1).to_vector()[0] == Approx(1));
  CHECK(x.log_softmax(1)[0][2].item() == Approx(2 - 2.407606));
  CHECK(cdist(x, x + 1)[0][0].item() == Approx(std::sqrt(3.)));
}

TEST_CASE("sorting, comparison and masks") {
  const Tensor x = grid(), m = x > 2;
  CHECK(x.sort(1, true).values.to_vector() == Values{2, 1, 0, 5, 4, 3});
  CHECK(sort(-x, 1).indices.to_vector<int64_t>() == Integers{2, 1, 0, 2, 1, 0});
  CHECK(x.argsort(1, true).to_vector<int64_t>() == Integers{2, 1, 0, 2, 1, 0});
  CHECK(x.topk(2, 1).values.to_vector() == Values{2, 1, 5, 4});
  CHECK(tensor({2, 1, 2}).unique().values.to_vector<int64_t>() == Integers{1, 2});
  CHECK(unique(x).values.numel() == 6);
  CHECK(searchsorted(tensor({1., 3.}), tensor({2.})).to_vector<int64_t>() == Integers{1});
  CHECK(isin(x, tensor({1., 5.})).to_vector() == Values{0, 1, 0, 0, 0, 1});
  CHECK((x == 1).to_vector() == Values{0, 1, 0, 0, 0, 0});
  CHECK(eq(x, 1).to_vector() == Values{0, 1, 0, 0, 0, 0});
  CHECK(x.eq(1).to_vector() == Values{0, 1, 0, 0, 0, 0});
  CHECK(total(x.ne(1)) == 5);
  CHECK(total(x.gt(2)) == 3);
  CHECK(total(x.ge(2)) == 4);
  CHECK(total(x.lt(2)) == 2);
  CHECK(total(x.le(2)) == 3);
  CHECK(total(x.gt(x - 1)) == 6);
  CHECK(total(x.eq(x)) == 6);
  CHECK(total(x.ne(x)) == 0);
  CHECK(total(x.lt(x) | (x.le(x) & x.ge(x))) == 6);
  CHECK(allclose(x, x + 1e-9));
  CHECK(x.allclose(x));
  CHECK(total(x.isclose(x + 1)) == 0);
  CHECK(x.equal(x));
  CHECK_FALSE(equal(x, x + 1));
  CHECK_FALSE(equal(x, x.reshape(6)));
  CHECK((~m).to_vector() == Values{1, 1, 1, 0, 0, 0});
  CHECK((m & (x < 5)).to_vector() == Values{0, 0, 0, 1, 1, 0});
  CHECK(((x > 2) & (x < 5)).to_vector() == Values{0, 0, 0, 1, 1, 0});
  CHECK((m | (x < 1)).to_vector() == Values{1, 0, 0, 1, 1, 1});
  CHECK((m ^ (x < 4)).to_vector() == Values{1, 1, 1, 0, 1, 1});
  CHECK((m && x < 5).to_vector() == Values{0, 0, 0, 1, 1, 0});
  CHECK(total(!m) == 3);
  CHECK(total(m.logical_not()) == 3);
  CHECK(total(m.logical_and(m)) == 3);
  CHECK(total(m.logical_or(~m)) == 6);
  CHECK(total(m.logical_xor(m)) == 0);
  Tensor mask = m.clone();
  mask &= x < 5;
  mask |= x == 0;
  mask ^= x == 3;
  CHECK(mask.to_vector() == Values{1, 0, 0, 0, 1, 0});
  CHECK(total(tensor({1., kNan}).isnan()) == 1);
  CHECK(total((1 / x).isinf()) == 1);
  CHECK(total(isfinite(1 / x)) == 5);
  CHECK(total(maximum(x, 3.)) == 21);
  CHECK(total(minimum(x, 1)) == 5);
}

TEST_CASE("dtypes, devices and sizes") {
  const Tensor x = grid();
  CHECK(x.to(i64).dtype() == i64);
  CHECK(x.to(f64).dtype() == f64);
  CHECK(x.to(cpu, f64).dtype() == f64);
  CHECK(x.to(tensor({1})).dtype() == i64);
  CHECK(x.type_as(tensor({1})).dtype() == i64);
  CHECK(x.cpu().device() == cpu);
  if (!backend::cuda::is_built()) test::expect_error("TT-CUDA-01", "configure with", [&] { x.cuda(); });
  CHECK(x.is_cuda() == default_device().is_cuda());
  CHECK(x.is_floating_point());
  CHECK(x.element_size() == 4);
  CHECK(x.nelement() == 6);
  CHECK(x.sizes()[1] == 3);
  CHECK(x.stride(0) == 3);
  CHECK(x.stride(-1) == 1);
  CHECK(x.size(-1) == 3);
  CHECK(x.dim() == 2);
  CHECK(x.to_vector()[3] == 3);
  std::ostringstream text;
  text << x;
  CHECK(text.str().find("5") != std::string::npos);
  CHECK(float(x[0][1].item()) == 1);
}

TEST_CASE("shapes") {
  const Tensor x = grid(), v = arange(2);
  CHECK(x.reshape(6).shape() == Shape{6});
  CHECK(x.view(3, 2).shape() == Shape{3, 2});
  CHECK(x.view(-1).shape() == Shape{6});
  CHECK(x.view_as(x.reshape(3, 2)).shape() == Shape{3, 2});
  CHECK(x.reshape_as(zeros(6)).shape() == Shape{6});
  CHECK(x[0].expand(4, 3).shape() == Shape{4, 3});
  CHECK(x[0].expand_as(x).shape() == Shape{2, 3});
  CHECK(x.broadcast_to({2, 2, 3}).shape() == Shape{2, 2, 3});
  CHECK(x.t().to_vector() == Values{0, 3, 1, 4, 2, 5});
  CHECK(x.T().shape() == Shape{3, 2});
  CHECK(x.mT().shape() == Shape{3, 2});
  CHECK(x.transpose(0, 1).shape() == Shape{3, 2});
  CHECK(x.swapaxes(0, 1).shape() == Shape{3, 2});
  CHECK(x.swapdims(0, 1).shape() == Shape{3, 2});
  CHECK(x.movedim(0, 1).shape() == Shape{3, 2});
  CHECK(x.permute(1, 0).shape() == Shape{3, 2});
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 1});
  CHECK(x.unsqueeze(0).squeeze(0).shape() == Shape{2, 3});
  CHECK(x.unsqueeze(0).squeeze().shape() == Shape{2, 3});
  CHECK(x.flatten().shape() == Shape{6});
  CHECK(x.ravel().shape() == Shape{6});
  CHECK(x.unflatten(1, {3, 1}).shape() == Shape{2, 3, 1});
  CHECK(x.repeat(2, 1).shape() == Shape{4, 3});
  CHECK(x.tile({1, 2}).shape() == Shape{2, 6});
  CHECK(x.repeat_interleave(2, 1)[0].to_vector() == Values{0, 0, 1, 1, 2, 2});
  CHECK(x.flip(0)[0].to_vector() == Values{3, 4, 5});
  CHECK(x.flip({0, 1})[0].to_vector() == Values{5, 4, 3});
  CHECK(x.roll(1).to_vector() == Values{5, 0, 1, 2, 3, 4});
  CHECK(x.tril().to_vector() == Values{0, 0, 0, 3, 4, 0});
  CHECK(cat(x, x).shape() == Shape{4, 3});
  CHECK(cat({x, x}, 1).shape() == Shape{2, 6});
  CHECK(concat({x, x}, 1).shape() == Shape{2, 6});
  CHECK(stack(x, x).shape() == Shape{2, 2, 3});
  CHECK(hstack(x, x).shape() == Shape{2, 6});
  CHECK(vstack(x, x).shape() == Shape{4, 3});
  CHECK(meshgrid(v, v)[0].to_vector<int64_t>() == Integers{0, 0, 1, 1});
  CHECK(pad(x, {1, 0}).shape() == Shape{2, 4});
  CHECK(pad(x, {1, 1, 2, 0}, 9).shape() == Shape{4, 5});
  CHECK(pad(x, {{2, 0}, {1, 1}}).shape() == Shape{4, 5});
  test::expect_error("TT-RANGE-08", "the last dimension first", [&] { pad(x, {1, 1, 1}); });
  CHECK(one_hot(v).to_vector<int64_t>() == Integers{1, 0, 0, 1});
  CHECK(one_hot(v, 3).shape() == Shape{2, 3});
  CHECK(x.contiguous().is_contiguous());
}

TEST_CASE("arithmetic") {
  const Tensor x = grid(), y = x + 1, m = x > 2, v = arange(3).to(f32), q = tensor({-1.5, 0.5, 2.5});
  CHECK(total(-x) == -15);
  CHECK(total(1 - x) == -9);
  CHECK(total(x / 2) == 7.5);
  CHECK((x % 2).to_vector() == Values{0, 1, 0, 1, 0, 1});
  CHECK((-x % y)[0].to_vector() == Values{0, 1, 1});
  CHECK(total(x.add(y)) == 36);
  CHECK(total(x.add(1)) == 21);
  CHECK(total(x.sub(y)) == -6);
  CHECK(total(x.sub(1)) == 9);
  CHECK(total(x.mul(y)) == 70);
  CHECK(total(x.mul(2)) == 30);
  CHECK(total(y.div(y)) == 6);
  CHECK(total(x.div(2)) == 7.5);
  CHECK(total(x.pow(2)) == 55);
  CHECK(pow(x, 2).to_vector()[5] == 25);
  CHECK(x.pow(v)[0].to_vector() == Values{1, 1, 4});
  CHECK(total(x.floor_divide(2)) == 6);
  CHECK(total(x.floor_divide(y)) == 0);
  CHECK(total(x.remainder(2)) == 3);
  CHECK(total(y.remainder(y)) == 0);
  CHECK((-x).fmod(2)[1].to_vector() == Values{-1, 0, -1});
  CHECK(total(y.fmod(y)) == 0);
  CHECK(total(x.maximum(3)) == 21);
  CHECK(total(x.maximum(y)) == 21);
  CHECK(total(x.minimum(1)) == 5);
  CHECK(total(x.minimum(y)) == 15);
  CHECK(total(x.clamp(1, 3)) == 13);
  CHECK(total(x.clip(1, 3)) == 13);
  CHECK(total(clip(x, 1, 3)) == 13);
  CHECK(total(x.clamp_min(2)) == 18);
  CHECK(total(x.clamp_max(2)) == 9);
  CHECK(total(x.lerp(y, 0.5)) == 18);
  CHECK(total(x.lerp(y, y - x)) == 21);
  CHECK(total(x.addcmul(x, y, 2)) == 155);
  CHECK(total(x.addcdiv(y, y)) == 21);
  CHECK(x.logaddexp(x)[0][0].item() == Approx(std::log(2)));
  CHECK(tensor({kNan}).nan_to_num(3).item() == 3);
  CHECK(q.ceil().to_vector() == Values{-1, 1, 3});
  CHECK(q.floor().to_vector() == Values{-2, 0, 2});
  CHECK(q.trunc().to_vector() == Values{-1, 0, 2});
  CHECK(q.frac().to_vector() == Values{-0.5, 0.5, 0.5});
  CHECK(q.round().to_vector() == Values{-2, 0, 2});
  CHECK(x.exp2().to_vector()[5] == Approx(32));
  CHECK(y.log2().to_vector()[3] == Approx(2));
  CHECK(y.log10().to_vector()[0] == 0);
  CHECK(q.tan().to_vector()[1] == Approx(std::tan(0.5)));
  CHECK(q.sinh().to_vector()[1] == Approx(std::sinh(0.5)));
  CHECK(q.cosh().to_vector()[1] == Approx(std::cosh(0.5)));
  CHECK(q.atanh().to_vector()[1] == Approx(std::atanh(0.5)));
  CHECK(total(log1p(x)) == Approx(6.579251));
  CHECK(total(expm1(zeros(2))) == 0);
  CHECK(v.dot(v).item() == 5);
  CHECK(dot(tensor({1, 2}), tensor({3, 4})).item<int64_t>() == 11);
  CHECK(x.mm(y.t()).to_vector() == Values{8, 17, 26, 62});
  CHECK(x.matmul(y.t()).to_vector() == Values{8, 17, 26, 62});
  CHECK(x.mv(v).to_vector() == Values{5, 14});
  CHECK(x.view(2, 1, 3).bmm(x.view(2, 3, 1)).to_vector() == Values{5, 50});
  CHECK(v.outer(v)[2].to_vector() == Values{0, 2, 4});
  CHECK(eye(2).addmm(x, y.t()).to_vector() == Values{9, 17, 26, 63});
  CHECK(einsum("ij,kj->ik", {x, y}).to_vector() == Values{8, 17, 26, 62});
  CHECK(normalize(x, 1, 1).to_vector()[3] == 0.25);
  CHECK(normalize(zeros(2, 2)).to_vector() == Values(4, 0));
}

TEST_CASE("in place") {
  const Tensor x = grid(), y = x + 1, m = x > 2;
  Tensor a = x.clone();
  a += 1, a += y, a -= y, a *= 2, a /= 2, a -= 1;
  CHECK(total(a) == 15);
  CHECK(total(a.add_(y)) == 36);
  CHECK(total(a.add_(y, 2)) == 78);
  CHECK(total(a.sub_(y, 2)) == 36);
  CHECK(total(a.sub_(y)) == 15);
  CHECK(total(a.mul_(y)) == 70);
  CHECK(total(a.div_(y)) == 15);
  CHECK(total(a.add_(1)) == 21);
  CHECK(total(a.sub_(1)) == 15);
  CHECK(total(a.mul_(2)) == 30);
  CHECK(total(a.div_(2)) == 15);
  CHECK(total(a.clone().zero_()) == 0);
  CHECK(total(a.clone().fill_(3)) == 18);
  CHECK(total(a.clone().zero_().add_(1).mul_(2)) == 12);
  CHECK(total(a.clone().clamp_(1, 3)) == 13);
  CHECK(total(a.clone().clip_(1, 3)) == 13);
  CHECK(total(a.clone().clamp_min_(2)) == 18);
  CHECK(total(a.clone().clamp_max_(2)) == 9);
  CHECK(total(a.clone().neg_()) == -15);
  CHECK(total(a.neg_().abs_().sqrt_().pow_(2)) == Approx(15));
  CHECK(total(x.clone().square_()) == 55);
  CHECK(total(x.clone().relu_()) == 15);
  CHECK(total((x / 2).floor_()) == 6);
  CHECK(total((x / 2).ceil_()) == 9);
  CHECK(total((x / 2).trunc_()) == 6);
  CHECK(total((x / 2).round_()) == 7);
  CHECK(total(x.clone().exp_().log_()) == Approx(15));
  CHECK(total(y.clone().reciprocal_()) == Approx(2.45));
  CHECK(total(ones(2).mul_(4).rsqrt_()) == 1);
  CHECK(total(ones(2).mul_(8).log2_()) == Approx(6));
  CHECK(total(ones(2).mul_(100).log10_()) == Approx(4));
  CHECK(total(zeros(2).sigmoid_()) == 1);
  CHECK(total(zeros(2).tanh_()) == 0);
  CHECK(total(zeros(2).cos_().sin_().tan_()) == Approx(2 * std::tan(std::sin(1.))));
  CHECK(total(x.clone().remainder_(2)) == 3);
  CHECK(total(x.clone().floor_divide_(2)) == 6);
  CHECK(total(x.clone().masked_fill_(m, 0)) == 3);
  CHECK(total(x.clone().copy_(y)) == 21);
  CHECK(total(x.clone().lerp_(y, 0.5)) == 18);
  CHECK(total(x.clone().addcmul_(x, y, 2)) == 155);
  CHECK(total(x.clone().addcdiv_(y, y)) == 21);
  CHECK(total(x.clone().tril_()) == 7);
  CHECK(total(x.clone().triu_()) == 12);
  Tensor i = x.to(i64);
  i %= 2;
  CHECK(total(i) == 3);
  i %= tensor({1});
  CHECK(total(i) == 0);
  CHECK(total(zeros(100).uniform_(2, 3) >= 2) == 100);
  CHECK(total(zeros(100).normal_(50, 1) > 40) == 100);
  CHECK(total(zeros(100).bernoulli_(1)) == 100);
  // A view writes through, and the graph records the write.
  a = x.clone();
  a[0].exp_();
  CHECK(a[0][0].item() == 1);
  const Tensor w = ones(2).requires_grad_();
  Tensor z = w * 2;
  z.square_().mul_(w);
  z.sum().backward();
  CHECK(w.grad().to_vector() == Values{12, 12});  // of 4 w^3
}

TEST_CASE("derivatives") {
  Tensor a = ones(2).requires_grad_();
  (a * a).sum().backward();
  CHECK(a.grad().to_vector() == Values{2, 2});
  a.grad().zero_();
  CHECK(a.grad().to_vector() == Values{0, 0});
  const Tensor b = a * 2;
  CHECK(a.is_leaf());
  CHECK_FALSE(b.detach().requires_grad());
  {
    NoGrad no_grad;
    CHECK_FALSE((a * 2).requires_grad());
  }
  Tensor w = full({1}, 3.).requires_grad_();
  const Tensor first = grad((w * w * w).sum(), {w}, {.create_graph = true})[0];
  CHECK(grad(first.sum(), {w})[0].item() == 18);
  // Functions that are composed of others, by central differences.
  const Tensor x = (grid() + 1).to(f64);
  const auto check = [&](const std::function<Tensor(const Tensor&)>& f) {
    Tensor leaf = x.clone().requires_grad_();
    const auto weights = [](const Tensor& y) { return cos(arange(y.numel()).to(f64)).reshape(y.shape()); };
    const Tensor y = f(leaf);
    (y * weights(y)).sum().backward();
    const double step = 1e-5;
    for (int64_t k = 0; k < x.numel(); ++k) {
      const Tensor nudge = (arange(x.numel()) == k).to(f64).reshape(x.shape()) * step;
      const Tensor up = f(x + nudge), down = f(x - nudge);
      const double slope = ((up - down) * weights(up)).sum().item<double>() / (2 * step);
      CHECK(leaf.grad().reshape(-1)[k].item<double>() == Approx(slope).epsilon(1e-5));
    }
  };
  check([](const Tensor& t) { return t.cumprod(1); });
  check([](const Tensor& t) { return t.cumprod(0); });
  check([](const Tensor& t) { return t.norm(3, 1); });
  check([](const Tensor& t) { return normalize(t); });
  check([](const Tensor& t) { return normalize(t, 1, 0); });
  check([](const Tensor& t) { return t.diagonal(1); });
  check([](const Tensor& t) { return diag(t[0], -1); });
  check([](const Tensor& t) { return t.matmul(t.t()).trace(); });
  check([](const Tensor& t) { return t[0].dot(t[1]); });
  check([](const Tensor& t) { return t.kthvalue(2, 1).values; });
  check([](const Tensor& t) { return t.exp2(); });
  check([](const Tensor& t) { return pad(t, {1, 2}); });
}
