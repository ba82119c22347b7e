// Memory of a kernel's tensors while it runs: a copy of each, in pages of its own between pages that nobody may touch. What
// lies between rows is NaN. A copy begins as far from an address of 16 as its tensor does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hone::emulated {

enum class Access { kRead, kWritten };
enum class Side { kBegin, kEnd };  // of the tensor, that lies at a closed page

// Rows of row_bytes side by side, `outer` times `inner` of them; bytes from one to the next.
struct Rows {
  std::int64_t outer = 0, outer_bytes = 0, inner = 1, inner_bytes = 0, row_bytes = 0;
};

class GuardedMemory {
 public:
  explicit GuardedMemory(Side side) : side_(side) {}
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // Returns the place of the copy: the same for the same tensor. `name` is for what give_back says.
  void* take(void* data, const Rows& rows, Access access, const char* name);
  // Written tensors get the copies' numbers. Throws std::runtime_error where another one, or what lies around rows, was written.
  void give_back();

 private:
  struct Copy {
    std::byte *data, *pages, *begin;  // the tensor; what is mapped; the copy
    std::size_t page_bytes;
    Rows rows;
    Access access;
    std::string name;
  };
  Side side_;
  std::vector<Copy> copies_;
};

// The copies that there are now, and of counted kernels (traffic.h) which of their bytes were read and written; empty: none yet.
struct Watched {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  std::vector<bool> loaded, stored;
};
std::vector<Watched>& watched();

}  // namespace hone::emulated
