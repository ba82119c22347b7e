// Which of the operators that a device has functions of its own for is the wrong one: without it, the reference computes, and
// the device's results are right.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <vector>

namespace hone::ops::cases {

std::string table_name(at::Device device);  // "cuda"; "reference": it has no functions of its own
std::vector<std::string> own_operators(at::Device device);  // "swiglu", in the table's order

// While it lives, `name` is computed by the reference on devices of this type; one at a time, while nothing else runs.
class Without {
 public:
  Without(at::Device device, const std::string& name);
  ~Without();
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
  at::DeviceType type_;
};

}  // namespace hone::ops::cases
