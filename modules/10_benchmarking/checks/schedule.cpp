#include <support/check.hpp>
#include <tinytorch/benchmarking/schedule.hpp>

using namespace course;
using namespace benchmarking;

namespace {

using Order = std::vector<size_t>;
std::string text_of(const Order& order) {
  std::string text;
  for (const size_t i : order) text += std::to_string(i);
  return text;
}

// The seconds of each contender on a machine that becomes slower with each turn: contender i takes base[i]
// times 1 + slope * turn.
Numbers with_drift(const std::vector<Order>& blocks, const Numbers& base, double slope) {
  Numbers seconds(base.size());
  double turn = 0;
  for (const Order& block : blocks)
    for (const size_t i : block) seconds[i] += base[i] * (1 + slope * turn++);
  return seconds;
}

}  // namespace

TEST_CASE("10.4 every contender once in every block") {
  for (const size_t contenders : {1, 2, 3, 7}) {
    const auto blocks = random_blocks(contenders, 40, 9);
    expect_equal("blocks of random_blocks(" + shown(contenders) + ", 40, 9)", blocks.size(), size_t{40});
    for (const Order& block : blocks) {
      Order sorted = block, all(contenders);
      std::sort(sorted.begin(), sorted.end());
      std::iota(all.begin(), all.end(), size_t{0});
      expect("a block of " + shown(contenders) + " contenders has each once; got " + text_of(block),
             sorted == all);
    }
  }
  expect_equal("number of blocks of random_blocks(3, 0, 1)", random_blocks(3, 0, 1).size(), size_t{0});
}

TEST_CASE("10.4 all orders are equally likely") {
  for (const size_t contenders : {2, 3, 4}) {
    size_t orders = 1;
    for (size_t i = 2; i <= contenders; ++i) orders *= i;
    const size_t each = 4000;
    std::map<std::string, size_t> seen;
    for (const Order& block : random_blocks(contenders, each * orders, 5)) ++seen[text_of(block)];
    expect_equal("orders of " + shown(contenders) + " contenders that occur, of all possible orders",
                 seen.size(), orders);
    for (const auto& [order, count] : seen)
      expect("order " + order + " comes about " + shown(each) + " times of " + shown(each * orders) +
                 "; got " + shown(count),
             std::abs(double(count) - double(each)) < 320,
             "exchange element i with one of the elements up to i; if it is exchanged with any element, some "
             "orders come more "
             "often");
  }
}

TEST_CASE("10.4 each block is drawn independently") {
  std::map<std::string, int> pairs;
  const auto blocks = random_blocks(2, 8001, 11);
  for (size_t b = 1; b < blocks.size(); ++b) ++pairs[text_of(blocks[b - 1]) + " then " + text_of(blocks[b])];
  for (const std::string pair : {"01 then 01", "01 then 10", "10 then 01", "10 then 10"})
    expect(pair + " comes about 2000 times of 8000; got " + shown(pairs[pair]),
           std::abs(pairs[pair] - 2000) < 250,
           "the order of a block must be independent of the block before it");
}

TEST_CASE("10.4 the seed determines the order") {
  expect("random_blocks(5, 20, 1) gives the same order each time",
         random_blocks(5, 20, 1) == random_blocks(5, 20, 1),
         "a schedule must be reproducible: use neither a clock nor random_device");
  expect("random_blocks(5, 20, 1) and random_blocks(5, 20, 2) differ",
         random_blocks(5, 20, 1) != random_blocks(5, 20, 2));
  expect("mirrored_blocks(5, 20, 1) gives the same order each time",
         mirrored_blocks(5, 20, 1) == mirrored_blocks(5, 20, 1));
  expect("mirrored_blocks(5, 20, 1) and mirrored_blocks(5, 20, 2) differ",
         mirrored_blocks(5, 20, 1) != mirrored_blocks(5, 20, 2));
  const auto few = random_blocks(3, 5, 1), many = random_blocks(3, 9, 1);
  expect("a schedule with more blocks begins with the same blocks",
         std::equal(few.begin(), few.end(), many.begin()));
}

TEST_CASE("10.4 a mirrored block is an order and its reverse") {
  for (const size_t contenders : {1, 2, 3, 5}) {
    const auto blocks = mirrored_blocks(contenders, 30, 2);
    expect_equal("blocks of mirrored_blocks(" + shown(contenders) + ", 30, 2)", blocks.size(), size_t{30});
    for (const Order& block : blocks) {
      expect_equal("number of turns in " + text_of(block), block.size(), 2 * contenders);
      Order back(block.rbegin(), block.rend()),
          first(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(contenders));
      expect("the second half is the reverse of the first half: " + text_of(block), back == block,
             "in A B A B, B is later than A by one turn, twice");
      std::sort(first.begin(), first.end());
      for (size_t i = 0; i < contenders; ++i)
        expect("each half has each contender once: " + text_of(block), first[i] == i);
    }
  }
  std::map<std::string, int> seen;
  for (const Order& block : mirrored_blocks(3, 6000, 8)) ++seen[text_of(block)];
  expect_equal("orders of mirrored blocks of 3", seen.size(), size_t{6});
  for (const auto& [order, count] : seen)
    expect(order + " comes about 1000 times of 6000; got " + shown(count), std::abs(count - 1000) < 180);
}

TEST_CASE("10.4 a machine that slows down favours no contender") {
  const Numbers equal{1, 1, 1};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Numbers mirrored = with_drift(mirrored_blocks(3, 12, seed), equal, 0.01);
    expect(
        "three equal contenders on a machine whose turns become longer by 1 % of the first turn: equal sums "
        "in mirrored blocks; got " +
            shown(mirrored),
        std::abs(mirrored[0] - mirrored[1]) < 1e-9 && std::abs(mirrored[1] - mirrored[2]) < 1e-9);
  }
  Numbers leads;  // seconds by which the first contender leads in random blocks
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Numbers s = with_drift(random_blocks(2, 10, seed), {1, 1}, 0.01);
    leads.push_back(s[1] - s[0]);
  }
  const double mean = std::accumulate(leads.begin(), leads.end(), 0.0) / 200;
  const auto ahead = std::count_if(leads.begin(), leads.end(), [](double l) { return l > 0; });
  expect("random blocks favour each of two contenders in about half of 200 schedules: the first leads in " +
             shown(ahead) + " of 200, by " + shown(mean) + " s on average",
         ahead > 50 && ahead < 130 && std::abs(mean) < 0.01);
}

TEST_CASE("10.4 A B B A, or B A A B") {
  int starts = 0, changes = 0;
  const auto blocks = abba_blocks(4000, 6);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::string text = text_of(blocks[b]);
    expect("a block of two is 0110 or 1001; got " + text, text == "0110" || text == "1001");
    starts += text == "0110";
    changes += b > 0 && blocks[b] != blocks[b - 1];
  }
  expect("about 2000 of 4000 begin with 0; got " + shown(starts), std::abs(starts - 2000) < 180);
  expect("about 2000 of 4000 differ from the one before; got " + shown(changes),
         std::abs(changes - 2000) < 180);
}
