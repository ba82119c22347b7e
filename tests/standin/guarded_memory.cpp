#include "standin/guarded_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "standin/standin.h"

namespace hone::standin {
namespace {

constexpr std::size_t kPage = 4096;

class GuardedMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_pages, device()};
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    void* const pages = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(pages != MAP_FAILED, "stand-in: no memory for ", bytes, " bytes");
    const std::lock_guard lock(mutex_);
    blocks_[pages] = {.size = size};
    bytes_.increase(size);
    return {pages, pages, &free_pages, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pages; }
  void copy_data(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) const override {
    TORCH_CHECK(false, "stand-in: memory is copied by tensors only");
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*pointer*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0] = bytes_;
    stats.reserved_bytes[0] = bytes_;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*index*/) override {}
  void resetPeakStats(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    bytes_.reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*index*/) override {
    const std::lock_guard lock(mutex_);
    return {kTotalBytes - static_cast<std::size_t>(bytes_.current), kTotalBytes};
  }

  void open(void* pages) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(pages);
    if (block.open++ == 0) protect(pages, block, PROT_READ | PROT_WRITE);
  }
  void close(void* pages) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(pages);
    if (--block.open == 0) protect(pages, block, PROT_NONE);
  }
  // The beginning of the block that has this address; null: none has.
  void* block_of(void* address) {
    const std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return nullptr;
    const auto& [pages, block] = *--after;
    return address < static_cast<std::byte*>(pages) + block.size ? pages : nullptr;
  }

 private:
  struct Block {
    std::size_t size = 0;
    int open = 0;  // how many HostAccess
  };
  static void protect(void* pages, const Block& block, int access) {
    TORCH_CHECK(mprotect(pages, block.size, access) == 0, "stand-in: mprotect");
  }
  static void free_pages(void* pages);
  void forget(void* pages) {
    if (pages == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(pages);
    munmap(pages, found->second.size);
    bytes_.decrease(found->second.size);
    blocks_.erase(found);
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  c10::CachingAllocator::Stat bytes_;
};

// Never destroyed: tensors of statics may be freed after it.
GuardedMemory& memory() {
  static auto* const one = new GuardedMemory;
  return *one;
}

void GuardedMemory::free_pages(void* pages) {
  memory().forget(pages);
}

}  // namespace

void register_memory() {
  c10::SetAllocator(device().type(), &memory());
}

HostAccess::HostAccess(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.device() != device() || tensor.storage().data() == nullptr) continue;
    memory().open(tensor.storage().mutable_data());
    opened_.push_back(tensor);
  }
}

HostAccess::~HostAccess() {
  for (const at::Tensor& tensor : opened_) memory().close(tensor.storage().mutable_data());
}

AddressAccess::AddressAccess(const void* words, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    void* word = nullptr;
    std::memcpy(static_cast<void*>(&word), static_cast<const std::byte*>(words) + at, sizeof word);
    if (void* const block = memory().block_of(word)) {
      memory().open(block);
      opened_.push_back(block);
    }
  }
}

AddressAccess::~AddressAccess() {
  for (void* const block : opened_) memory().close(block);
}

at::Tensor host_view(const at::Tensor& tensor) {
  if (tensor.device().is_cpu()) return tensor;
  char* const first = static_cast<char*>(tensor.storage().mutable_data()) +
                      tensor.storage_offset() * static_cast<std::int64_t>(tensor.element_size());
  return at::from_blob(first, tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

}  // namespace hone::standin
