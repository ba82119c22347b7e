// The functions that the compiler calls under -fsanitize=thread, whose own library is not linked.
#include "emulated/machine/traffic.h"

#include <utility>
#include <vector>

#include "emulated/machine/guarded_memory.h"

namespace hone::emulated {
namespace {

Traffic traffic;

void accessed(const void* at, std::size_t bytes, bool stores) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (Watched& one : watched()) {
    if (address < one.begin || address >= one.begin + one.bytes) continue;
    (stores ? traffic.stored : traffic.loaded) += static_cast<std::int64_t>(bytes);
    std::vector<bool>& seen = stores ? one.stored : one.loaded;
    std::int64_t& distinct = stores ? traffic.distinct_stored : traffic.distinct_loaded;
    if (seen.empty()) seen.resize(one.bytes);
    for (std::size_t i = address - one.begin, end = i + bytes; i < end && i < one.bytes; ++i) {
      distinct += seen[i] ? 0 : 1;
      seen[i] = true;
    }
    return;
  }
}

}  // namespace

Traffic take_traffic() {
  return std::exchange(traffic, {});
}

}  // namespace hone::emulated

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void* /*caller*/) {}
void __tsan_func_exit() {}
#define HONE_ACCESSES(bytes)                     \
  void __tsan_read##bytes(void* at) {            \
    hone::emulated::accessed(at, bytes, false);  \
  }                                              \
  void __tsan_write##bytes(void* at) {           \
    hone::emulated::accessed(at, bytes, true);   \
  }                                              \
  void __tsan_unaligned_read##bytes(void* at) {  \
    hone::emulated::accessed(at, bytes, false);  \
  }                                              \
  void __tsan_unaligned_write##bytes(void* at) { \
    hone::emulated::accessed(at, bytes, true);   \
  }
HONE_ACCESSES(1)
HONE_ACCESSES(2)
HONE_ACCESSES(4)
HONE_ACCESSES(8)
HONE_ACCESSES(16)
#undef HONE_ACCESSES
void __tsan_read_range(void* at, std::size_t bytes) {
  hone::emulated::accessed(at, bytes, false);
}
void __tsan_write_range(void* at, std::size_t bytes) {
  hone::emulated::accessed(at, bytes, true);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
