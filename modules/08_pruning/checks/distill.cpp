#include <08_pruning/checks/weights.hpp>
#include <tinytorch/layers/dropout.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/pruning/distill.hpp>

using namespace course;

namespace {

// log softmax(x / T) of each row of V numbers.
Numbers log_shares(const Numbers& x, size_t V, double T) {
  Numbers y(x.size());
  for (size_t first = 0; first < x.size(); first += V) {
    double most = -INFINITY, sum = 0;
    for (size_t i = first; i < first + V; ++i) most = std::max(most, x[i] / T);
    for (size_t i = first; i < first + V; ++i) sum += std::exp(x[i] / T - most);
    for (size_t i = first; i < first + V; ++i) y[i] = x[i] / T - most - std::log(sum);
  }
  return y;
}
// T^2 times the mean over rows of sum p (log p - log q).
double soft_loss(const Numbers& student, const Numbers& teacher, size_t V, double T, bool reverse) {
  const Numbers s = log_shares(student, V, T), t = log_shares(teacher, V, T);
  double sum = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const double p = reverse ? s[i] : t[i], q = reverse ? t[i] : s[i];
    if (std::exp(p) > 0) sum += std::exp(p) * (p - q);
  }
  return sum * T * T * static_cast<double>(V) / static_cast<double>(student.size());
}
double hard_loss(const Numbers& student, const Numbers& labels, size_t V) {
  const Numbers s = log_shares(student, V, 1);
  double sum = 0;
  for (size_t r = 0; r < labels.size(); ++r) sum -= s[r * V + static_cast<size_t>(labels[r])];
  return sum / static_cast<double>(labels.size());
}
// (loss(x + h) - loss(x - h)) / 2 h for each number.
template <class F>
Numbers slopes(Numbers x, F&& loss) {
  Numbers out;
  for (double& v : x) {
    const double h = 1e-5, old = v;
    v = old + h;
    const double above = loss(x);
    v = old - h;
    out.push_back((above - loss(x)) / (2 * h));
    v = old;
  }
  return out;
}
Tensor in_f64(const Numbers& x, const Shape& shape) { return Tensor(from_data(x, shape)); }
Tensor labels_of(const Numbers& y) { return in_f64(y, {static_cast<int64_t>(y.size())}).to(DType::i64); }
double item(const Tensor& loss) { return numbers(loss)[0]; }

}  // namespace

TEST_CASE("8.11 soft targets: T^2 times the mean divergence of the rows") {
  const Numbers s = normal(4 * 7, 2), t = normal(4 * 7, 3);
  for (const double T : {1.0, 2.0, 4.0, 0.5}) {
    for (const bool reverse : {false, true}) {
      const Tensor loss = soft_target_loss(in_f64(s, {4, 7}), in_f64(t, {4, 7}), T,
                                           reverse ? Divergence::reverse : Divergence::forward);
      expect_close(
          std::string(reverse ? "KL(student || teacher)" : "KL(teacher || student)") + " at T = " + shown(T),
          numbers(loss), {soft_loss(s, t, 7, T, reverse)}, {}, {.dtype = f64, .roundings = 200, .scale = 20});
    }
  }
}

TEST_CASE("8.11 the gradient of the student, by differences") {
  const Numbers s = normal(3 * 5, 2), t = normal(3 * 5, 2);
  for (const bool reverse : {false, true}) {
    Tensor student = in_f64(s, {3, 5}).clone();
    student.requires_grad_();
    soft_target_loss(student, in_f64(t, {3, 5}), 3, reverse ? Divergence::reverse : Divergence::forward)
        .backward();
    const Numbers want = slopes(s, [&](const Numbers& x) { return soft_loss(x, t, 5, 3, reverse); });
    expect_close(std::string("d loss / d student at T = 3, ") + (reverse ? "reverse" : "forward"),
                 numbers(student.grad()), want, {3, 5}, {.dtype = f32, .roundings = 10});
  }
}

TEST_CASE("8.11 the teacher gets no gradient") {
  Tensor student = random_tensor({3, 4}).clone(), teacher = random_tensor({3, 4}).clone();
  student.requires_grad_(), teacher.requires_grad_();
  const auto is_alone = [&](const std::string& what, const Tensor& loss) {
    student.zero_grad(), teacher.zero_grad();
    loss.backward();
    expect(what + ": the student has a gradient", student.grad().defined());
    expect(what + ": the teacher has none",
           !teacher.grad().defined() || magnitudes(numbers(teacher.grad())) == Numbers(12));
  };
  is_alone("soft_target_loss", soft_target_loss(student, teacher));
  is_alone("soft_target_loss, reverse", soft_target_loss(student, teacher, 2, Divergence::reverse));
  is_alone("distillation_loss", distillation_loss(student, teacher, labels_of({0, 1, 3})));
  is_alone("hidden_state_loss", hidden_state_loss(student, teacher));
  is_alone("attention_loss", attention_loss(softmax(student, -1), softmax(teacher, -1)));
}

TEST_CASE("8.11 soft and hard targets by weight; with weight 0 or 1 one of them is not needed") {
  const Numbers s = normal(6 * 5, 2), t = normal(6 * 5, 2), y{0, 4, 2, 2, 1, 3};
  const Tensor student = in_f64(s, {6, 5}), teacher = in_f64(t, {6, 5});
  for (const double soft : {0.0, 0.25, 0.9, 1.0}) {
    const double want = soft * soft_loss(s, t, 5, 4, true) + (1 - soft) * hard_loss(s, y, 5);
    expect_close(
        "distillation_loss with soft = " + shown(soft) + " at T = 4, reverse",
        numbers(distillation_loss(student, teacher, labels_of(y),
                                  {.temperature = 4, .soft = soft, .divergence = Divergence::reverse})),
        {want}, {}, {.dtype = f64, .roundings = 200, .scale = 20});
  }
  expect_close("soft = 0 without a teacher",
               numbers(distillation_loss(student, Tensor(), labels_of(y), {.soft = 0})), {hard_loss(s, y, 5)},
               {}, {.dtype = f64, .roundings = 200, .scale = 5});
  expect_close("soft = 1 without labels", numbers(distillation_loss(student, teacher, Tensor(), {.soft = 1})),
               {soft_loss(s, t, 5, 2, false)}, {}, {.dtype = f64, .roundings = 200, .scale = 20});
}

TEST_CASE("8.11 a class that the teacher rules out adds nothing, and huge logits give no NaN") {
  const double minus = -INFINITY;
  const Numbers t{1, minus, 0, minus, 2, 3}, s = normal(6);
  expect_close("teacher {1, -inf, 0}, {-inf, 2, 3}",
               numbers(soft_target_loss(in_f64(s, {2, 3}), in_f64(t, {2, 3}))),
               {soft_loss(s, t, 3, 2, false)}, {}, {.dtype = f64, .roundings = 100, .scale = 10});
  const Numbers big{1e4, -1e4, 0, -1e4, 1e4, 0};
  const double loss = item(soft_target_loss(in_f64(big, {2, 3}), in_f64(big, {2, 3}), 1));
  expect("equal logits of 10000 have loss 0; got " + shown(loss), loss == 0);
}

TEST_CASE("8.11 more dimensions, bf16 teachers, and no rows") {
  const Numbers s = normal(2 * 3 * 5), t = normal(2 * 3 * 5);
  expect_close("logits [2, 3, 5]: the mean over 6 rows",
               numbers(soft_target_loss(in_f64(s, {2, 3, 5}), in_f64(t, {2, 3, 5}))),
               {soft_loss(s, t, 5, 2, false)}, {}, {.dtype = f64, .roundings = 200, .scale = 5});
  const Tensor half = in_f64(t, {6, 5}).to(bf16);
  const Tensor loss = soft_target_loss(in_f64(s, {6, 5}).to(f32), half);
  expect("a student of f32 and a teacher of bf16 have a loss of f32", loss.dtype() == f32);
  expect_close("its value", numbers(loss),
               {soft_loss(numbers(in_f64(s, {6, 5}).to(f32)), numbers(half), 5, 2, false)}, {},
               {.roundings = 50, .scale = 3});
  expect("no rows [0, 5]: the loss is 0", item(soft_target_loss(zeros({0, 5}), zeros({0, 5}))) == 0);
}

TEST_CASE("8.11 hidden states: the mean squared difference; attention: the mean divergence of queries") {
  const Numbers s = normal(24), t = normal(24);
  double squares = 0;
  for (size_t i = 0; i < 24; ++i) squares += (s[i] - t[i]) * (s[i] - t[i]) / 24;
  expect_close("hidden_state_loss [2, 3, 4]",
               numbers(hidden_state_loss(in_f64(s, {2, 3, 4}), in_f64(t, {2, 3, 4}))), {squares}, {},
               {.dtype = f64, .roundings = 50, .scale = 3});
  Numbers p = log_shares(s, 4, 1), q = log_shares(t, 4, 1);
  double sum = 0;
  for (size_t i = 0; i < 24; ++i) p[i] = std::exp(p[i]), q[i] = i % 4 == 3 ? 0 : std::exp(q[i]);
  for (size_t i = 0; i < 24; ++i) sum += q[i] > 0 ? q[i] * std::log(q[i] / p[i]) : 0;
  expect_close("attention_loss [2, 3, 4] with zeros of the teacher",
               numbers(attention_loss(in_f64(p, {2, 3, 4}), in_f64(q, {2, 3, 4}))), {sum / 6}, {},
               {.dtype = f64, .roundings = 200, .scale = 5});
}

TEST_CASE("8.11 the teacher answers in eval mode, without a graph, and is as it was") {
  Sequential teacher(std::make_shared<Linear>(6, 8), std::make_shared<Dropout>(0.5),
                     std::make_shared<Linear>(8, 3));
  teacher.train();
  const Tensor x = random_tensor({5, 6});
  const Tensor first = teacher_logits(teacher, x), again = teacher_logits(teacher, x);
  expect("two answers to one question are equal: no dropout", numbers(first) == numbers(again));
  expect("the answer has no graph", !first.requires_grad());
  expect("the teacher trains again afterwards", teacher.training());
  teacher.eval();
  (void)teacher_logits(teacher, x);
  expect("a teacher in eval mode stays there", !teacher.training());
  expect("its answers are those of eval mode", numbers(teacher(x)) == numbers(first));
}

TEST_CASE("8.11 shapes that differ, temperatures and weights out of range, are refused") {
  for (const double T : {0.0, -1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)})
    expect_throws("TT-PRUNE-08", "T = " + shown(T), [&] {
      (void)soft_target_loss(ones({2, 3}), ones({2, 3}), T);
    });
  for (const double soft : {-0.1, 1.1, static_cast<double>(NAN)})
    expect_throws("TT-PRUNE-08", "soft = " + shown(soft), [&] {
      (void)distillation_loss(ones({2, 3}), ones({2, 3}), labels_of({0, 1}), {.soft = soft});
    });
  expect_throws("TT-SHAPE-02", "logits [2, 3] and [2, 4]", [&] {
    (void)soft_target_loss(ones({2, 3}), ones({2, 4}));
  });
  expect_throws("TT-SHAPE-02", "logits [2, 3] and [1, 3]", [&] {
    (void)soft_target_loss(ones({2, 3}), ones({1, 3}));
  });
  expect_throws("TT-SHAPE-02", "attention [2, 3] and [1, 3]", [&] {
    (void)attention_loss(ones({2, 3}), ones({1, 3}));
  });
}
