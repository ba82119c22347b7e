#include "train/saves/reference_file.h"

#include <ATen/ATen.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "train/saves/run_folder.h"

namespace hone::train {

namespace fs = base::fs;
using base::UserError;

namespace {

// The parts of `values`, as the adapter's tensors lie in Adapter::flat().
std::vector<at::Tensor> parts_of(const at::Tensor& values, const adapters::Adapter& adapter) {
  std::vector<at::Tensor> out;
  std::int64_t offset = 0;
  for (const adapters::TrainableTensor& one : adapter.tensors()) {
    out.push_back(values.narrow(0, offset, one.value.numel()).view(one.value.sizes()));
    offset += one.value.numel();
  }
  return out;
}

}  // namespace

void write_reference(const fs::path& path, const adapters::Adapter& adapter, const at::Tensor& values) {
  std::vector<base::TensorHeader> headers;
  for (const adapters::TrainableTensor& one : adapter.tensors())
    headers.push_back({.name = one.name, .dtype = base::DType::kF32, .shape = one.value.sizes().vec()});
  const std::vector<at::Tensor> parts = parts_of(values, adapter);
  base::write_safetensors(path, headers, {{"format", "pt"}}, [&](std::size_t k, const base::TakeBytes& take) {
    const at::Tensor part = parts[k].cpu();
    take({static_cast<const std::byte*>(part.const_data_ptr()), part.nbytes()});
  });
}

at::Tensor load_reference(const fs::path& folder, const adapters::Adapter& adapter) {
  const fs::path path = folder / kReferenceFile;
  if (!fs::exists(path)) {
    throw UserError({.where = "option sync_ref_model",
                     .expected = "a checkpoint with " + std::string(kReferenceFile),
                     .found = folder.string() + " has none",
                     .cause = "the run began without sync_ref_model",
                     .fix = "resume it without sync_ref_model, or begin a new run"});
  }
  const auto file = base::SafetensorsFile::open(path);
  at::Tensor out = at::empty({adapter.flat().numel()}, at::kFloat);
  const std::vector<at::Tensor> parts = parts_of(out, adapter);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& name = adapter.tensors()[i].name;
    const auto* stored = file.find(name);
    const bool fits =
        stored != nullptr && stored->dtype == base::DType::kF32 && stored->shape == parts[i].sizes().vec();
    if (!fits) {
      throw UserError({.where = path.string() + " tensor " + name,
                       .expected = "F32 with " + std::to_string(parts[i].numel()) + " numbers",
                       .found = stored == nullptr ? "no such tensor" : "another shape or type",
                       .cause = "the run began with other weights that are trained",
                       .fix = "resume with the options of plan.yaml"});
    }
    std::memcpy(at::Tensor(parts[i]).mutable_data_ptr(), stored->bytes.data(), stored->bytes.size());
  }
  return out;
}

}  // namespace hone::train
