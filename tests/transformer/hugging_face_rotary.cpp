#include <tinytorch/transformer/hugging_face_rotary.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace hf = tinytorch::hugging_face;

TEST_CASE("every scaling is read back as it was written") {
  std::vector<tt::RotaryOptions> all(6, tt::RotaryOptions{.theta = 5000});
  all[1].scaling = tt::Llama3Scaling{4, 1.5, 5, 77};
  all[2].stretch = tt::LinearScaling{2.5};
  all[3].stretch = tt::DynamicScaling{3, 64};
  all[4].stretch = tt::YarnScaling{4, 32, 16, 2, 1.3, false};
  all[5].stretch = tt::LongRopeScaling{{1, 1.1}, {2, 3.3}, 32, 1.2};
  for (const tt::RotaryOptions& o : all) {
    const std::string text = "{\"rope_theta\": 5000, \"rope_scaling\": " + hf::rope_scaling_json(o) + "}";
    CAPTURE(text);
    const tt::Json json = hf::parse_object(tt::as_bytes(text), {"c.json", "a config", tt::Loc::current()});
    hf::ConfigReader in(json, "c.json", tt::Loc::current());
    CHECK(hf::read_rotary(in, {}, 4, {.positions = 64}) == o);
    in.finish();
  }
}
