// A LoRA on a model's linears, as PEFT writes and reads it.
//
//   hone::Adapter adapter(model, {.r = 16, .alpha = 32});
//   ... steps (step.h) ...
//   adapter.save("runs/first");
//
// A model has one adapter at a time: another one takes its place. Engines of the model sample with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hone/model.h"

namespace hone {

struct LoraOptions {
  std::int64_t r = 8;  // 1 or more
  double alpha = 16;   // the product of B and A is multiplied by alpha / r
  // The ends of names of modules, or "all-linear" alone. The head is not among what a library trains.
  std::vector<std::string> target_modules = {"all-linear"};
  std::uint64_t seed = 42;  // of A; B is 0
};

class Adapter {
 public:
  // A new one. UserError for a name that no linear has, and for lm_head. The model must outlive it.
  explicit Adapter(Model& model, const LoraOptions& options = {});
  // From PEFT's folder. UserError for one that belongs to another model, and for one that trains more than
  // linears of layers.
  static Adapter load(Model& model, const std::string& folder);
  Adapter(Adapter&&) noexcept;
  Adapter& operator=(Adapter&&) noexcept;
  ~Adapter();

  // Writes adapter_config.json and adapter_model.safetensors in fp32; the folder is created if needed.
  void save(const std::string& folder) const;
  std::int64_t parameters() const;

  struct Parts;  // of the implementation
  Parts& parts() const { return *parts_; }

 private:
  explicit Adapter(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace hone
