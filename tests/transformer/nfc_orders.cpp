#include <tinytorch/transformer/nfc_orders.hpp>

#include <doctest/doctest.h>

#include <tinytorch/transformer/nfc.hpp>

namespace tt = tinytorch;

TEST_CASE("combining classes: sorted, neighbours differ, and known marks") {
  for (size_t i = 1; i < std::size(tt::unicode::kOrders); ++i) {
    CHECK_UNARY(tt::unicode::kOrders[i - 1] < tt::unicode::kOrders[i]);
    CHECK_UNARY((tt::unicode::kOrders[i - 1] & 0xff) != (tt::unicode::kOrders[i] & 0xff));
  }
  for (const auto& [code, order] : {std::pair(0x41u, 0u),
                                    {0x301u, 230u},
                                    {0x323u, 220u},
                                    {0x327u, 202u},
                                    {0x338u, 1u},
                                    {0x345u, 240u},
                                    {0x94du, 9u},
                                    {0x3099u, 8u},
                                    {0x10ffffu, 0u},
                                    {0x110080u, 0u}}) {
    const uint32_t c = code, expected = order;
    CAPTURE(c);
    CHECK(tt::unicode::order_of(c) == expected);
  }
}
