// Device of a tensor: the CPU, or one CUDA device by index.
#pragma once

#include <cstdint>
#include <string>
#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;
  friend constexpr bool operator==(const Device&, const Device&) = default;
  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  constexpr bool is_cuda() const { return type == DeviceType::cuda; }
  std::string str() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
};

inline constexpr Device cpu{DeviceType::cpu, 0};
inline constexpr Device cuda{DeviceType::cuda, 0};

// Device of new tensors for which no device is given: the CPU until it is set. The setting is per thread.
inline Device& default_device_setting() {
  thread_local Device device = cpu;
  return device;
}
inline Device default_device() { return default_device_setting(); }
inline void set_default_device(Device device) { default_device_setting() = device; }

}  // namespace tinytorch::inline TT_BUILD
