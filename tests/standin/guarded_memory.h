// The stand-in's memory: pages of their own for each allocation, closed to the host (PROT_NONE) unless a
// HostAccess is open.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace hone::standin {

// What c10::getDeviceAllocator() gives for the stand-in; facts about its memory come from there too.
constexpr std::size_t kTotalBytes = std::size_t{16} << 30;  // what it says it has
void register_memory();

// Opens the memory of those of `tensors` that are on the stand-in, as long as this lives; any number may be
// open at once.
class HostAccess {
 public:
  explicit HostAccess(std::initializer_list<at::Tensor> tensors);
  ~HostAccess();
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;

 private:
  std::vector<at::Tensor> opened_;  // kept alive
};

// Opens the allocations of the stand-in to which words of `bytes` at `words` point: the tensors of a kernel's call.
class AddressAccess {
 public:
  AddressAccess(const void* words, std::size_t bytes);
  ~AddressAccess();
  AddressAccess(const AddressAccess&) = delete;
  AddressAccess& operator=(const AddressAccess&) = delete;

 private:
  std::vector<void*> opened_;
};

// The same memory as a tensor of the CPU; `tensor` itself where it is one. To be read and written under a
// HostAccess.
at::Tensor host_view(const at::Tensor& tensor);

}  // namespace hone::standin
