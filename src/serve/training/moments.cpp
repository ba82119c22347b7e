#include "serve/training/moments.h"

#include <ATen/ATen.h>

#include <array>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/files/safetensors.h"

namespace hone::serve {
namespace {

base::StoredTensor stored(const char* name, const at::Tensor& values) {
  return {.name = name,
          .dtype = base::DType::kF32,
          .shape = values.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}};
}

[[noreturn]] void fail(const base::SafetensorsFile& file, const std::string& expected,
                       const std::string& found) {
  throw base::UserError({.where = file.path().string(),
                         .expected = expected,
                         .found = found,
                         .cause = "the file is of another adapter, or was changed",
                         .fix = "load the path without its optimizer (create_training_client_from_state)"});
}

void read(const base::SafetensorsFile& file, const char* name, at::Tensor& into) {
  const base::StoredTensor* const found = file.find(name);
  if (found == nullptr || found->dtype != base::DType::kF32 || found->shape != into.sizes().vec())
    fail(file, std::string(name) + " F32 [" + std::to_string(into.numel()) + "]",
         found == nullptr ? "no such tensor" : "another shape or type");
  at::Tensor host = at::empty({into.numel()}, at::kFloat);
  std::memcpy(host.mutable_data_ptr<float>(), found->bytes.data(), found->bytes.size());
  into.copy_(host);
}

}  // namespace

void write_moments(const base::fs::path& folder, const learn::AdamWState& state) {
  const at::Tensor m = state.m.cpu().contiguous(), v = state.v.cpu().contiguous();
  const std::array tensors = {stored("exp_avg", m), stored("exp_avg_sq", v)};
  base::write_safetensors(folder / kMomentsFile, tensors,
                          {{"format", "pt"}, {"step", std::to_string(state.step)}, {"optimizer", "adamw"}});
}

void read_moments(const base::fs::path& folder, learn::AdamWState& state) {
  const auto file = base::SafetensorsFile::open(folder / kMomentsFile);
  const auto step = file.metadata().find("step"), name = file.metadata().find("optimizer");
  if (name == file.metadata().end() || name->second != "adamw") fail(file, "the moments of adamw", "others");
  std::int64_t steps = -1;
  if (step != file.metadata().end()) {
    const std::string& text = step->second;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), steps);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) steps = -1;
  }
  if (steps < 0) fail(file, "the number of its steps", "none");
  read(file, "exp_avg", state.m);
  read(file, "exp_avg_sq", state.v);
  state.step = steps;
}

}  // namespace hone::serve
