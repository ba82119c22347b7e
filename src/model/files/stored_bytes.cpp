#include "model/files/stored_bytes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/process/process_memory.h"
#include "ops/machine/device_memory.h"

namespace hone::model {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1}
                                << 20;  // numbers: what one thread holds of the file at a time

// `count` numbers; the file may place them at an address that their type does not allow.
void convert(const std::byte* from, at::ScalarType stored, const at::Tensor& to) {
  const auto size = static_cast<std::size_t>(to.numel()) * c10::elementSize(stored);
  if (to.scalar_type() == stored) {
    std::memcpy(to.mutable_data_ptr(), from, size);
    return;
  }
  at::Tensor aligned;
  const void* source = from;
  if (reinterpret_cast<std::uintptr_t>(from) % c10::elementSize(stored) != 0) {
    aligned = at::empty({to.numel()}, stored);
    std::memcpy(aligned.mutable_data_ptr(), from, size);
    source = aligned.const_data_ptr();
  }
  to.copy_(at::from_blob(const_cast<void*>(source), {to.numel()}, stored));  // NOLINT: only read
}

}  // namespace

void copy_stored(std::span<const std::byte> bytes, at::ScalarType stored, const at::Tensor& out) {
  const auto width = static_cast<std::int64_t>(c10::elementSize(stored));
  const std::int64_t count = out.numel();
  base::require(out.is_contiguous() && ops::is_host(out.device()) &&
                    static_cast<std::int64_t>(bytes.size()) == count * width,
                "model::copy_stored", "a contiguous tensor of as many numbers");
  const at::Tensor flat = out.view({count});
  at::parallel_for(0, (count + kChunk - 1) / kChunk, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * kChunk, n = std::min(kChunk, count - first);
      const auto part =
          bytes.subspan(static_cast<std::size_t>(first * width), static_cast<std::size_t>(n * width));
      convert(part.data(), stored, flat.narrow(0, first, n));
      base::release_pages(part);
    }
  });
}

}  // namespace hone::model
