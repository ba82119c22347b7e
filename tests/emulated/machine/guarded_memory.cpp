#include "emulated/machine/guarded_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace hone::emulated {
namespace {

constexpr std::size_t kPage = 4096, kAligned = 16;
constexpr int kPoison = 0xff;  // NaN of every type

std::size_t size_of(const Rows& rows) {
  if (rows.outer < 1 || rows.inner < 1 || rows.row_bytes < 1) return 0;
  return static_cast<std::size_t>((rows.outer - 1) * rows.outer_bytes + (rows.inner - 1) * rows.inner_bytes +
                                  rows.row_bytes);
}

// call(offset) for each row.
template <typename Call>
void each_row(const Rows& rows, const Call& call) {
  if (size_of(rows) == 0) return;
  for (std::int64_t i = 0; i < rows.outer; ++i)
    for (std::int64_t j = 0; j < rows.inner; ++j) call(i * rows.outer_bytes + j * rows.inner_bytes);
}

bool is_poison(const std::byte* begin, std::size_t bytes) {
  return std::all_of(begin, begin + bytes, [](std::byte one) { return one == std::byte{kPoison}; });
}

}  // namespace

std::vector<Watched>& watched() {
  static std::vector<Watched> all;
  return all;
}

GuardedMemory::~GuardedMemory() {
  watched().clear();
  for (const Copy& one : copies_) munmap(one.pages, one.page_bytes);
}

void* GuardedMemory::take(void* data, const Rows& rows, Access access, const char* name) {
  auto* const original = static_cast<std::byte*>(data);
  for (Copy& one : copies_) {
    if (one.data != original || size_of(one.rows) != size_of(rows)) continue;
    if (access == Access::kWritten) one.access = access;
    return one.begin;
  }
  const std::size_t size = size_of(rows), off = reinterpret_cast<std::uintptr_t>(data) % kAligned;
  const std::size_t inside = (size + 2 * kAligned + kPage - 1) / kPage * kPage, all = inside + 2 * kPage;
  void* const pages = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::runtime_error("no memory for an emulated tensor");
  auto* const first = static_cast<std::byte*>(pages) + kPage;
  std::size_t at = side_ == Side::kBegin ? off : (inside - size - off) / kAligned * kAligned + off;
  if (size == 0) at = inside;  // any access stops
  if (size > 0) {
    mprotect(first, inside, PROT_READ | PROT_WRITE);
    std::memset(first, kPoison, inside);
  }
  each_row(rows, [&](std::int64_t offset) {
    std::memcpy(first + at + offset, original + offset, static_cast<std::size_t>(rows.row_bytes));
  });
  watched().push_back({reinterpret_cast<std::uintptr_t>(first + at), size, {}, {}});
  copies_.push_back({original, static_cast<std::byte*>(pages), first + at, all, rows, access, name});
  return first + at;
}

void GuardedMemory::give_back() {
  for (const Copy& one : copies_) {
    if (size_of(one.rows) == 0) continue;
    const auto bytes = static_cast<std::size_t>(one.rows.row_bytes);
    each_row(one.rows, [&](std::int64_t offset) {
      if (one.access == Access::kWritten)
        std::memcpy(one.data + offset, one.begin + offset, bytes);
      else if (std::memcmp(one.data + offset, one.begin + offset, bytes) != 0)
        throw std::runtime_error(one.name + " was written");
      std::memset(one.begin + offset, kPoison, bytes);
    });
    if (!is_poison(one.pages + kPage, one.page_bytes - 2 * kPage))
      throw std::runtime_error("what lies around " + one.name + " was written");
  }
}

}  // namespace hone::emulated
