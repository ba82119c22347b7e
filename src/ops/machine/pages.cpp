#include "ops/machine/pages.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/files/unnamed_file.h"
#include "base/process/page_size.h"
#include "ops/machine/device_memory.h"

namespace hone::ops {
namespace {

std::int64_t page_bytes() {
  return static_cast<std::int64_t>(base::page_size());
}

std::size_t bytes_of(std::int64_t count, at::ScalarType dtype) {
  return static_cast<std::size_t>(count) * c10::elementSize(dtype);
}

at::Tensor tensor_over(void* memory, std::size_t bytes, std::int64_t count, at::ScalarType dtype) {
  return at::from_blob(
      memory, {count}, [bytes](void* begin) { ::munmap(begin, bytes); }, at::TensorOptions(dtype));
}

// The bytes of elements [begin, end), and the whole pages among them.
struct Pages {
  std::byte *begin, *end, *first, *last;
};

Pages pages_of(const at::Tensor& flat, std::int64_t begin, std::int64_t end) {
  base::require(
      is_host(flat.device()) && flat.is_contiguous() && 0 <= begin && begin <= end && end <= flat.numel(),
      "ops::pages_of", "elements of a contiguous buffer on the CPU");
  auto* const memory = static_cast<std::byte*>(flat.data_ptr());
  const std::int64_t size = flat.element_size();
  Pages out{memory + begin * size, memory + end * size, nullptr, nullptr};
  const auto up = [](std::byte* at) {
    const auto over = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) %
                                                static_cast<std::uintptr_t>(page_bytes()));
    return over == 0 ? at : at + (page_bytes() - over);
  };
  out.first = std::min(up(out.begin), out.end);
  const auto over = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out.end) %
                                              static_cast<std::uintptr_t>(page_bytes()));
  out.last = std::max(out.first, out.end - over);
  return out;
}

[[noreturn]] void throw_no_file(const base::fs::path& folder, std::size_t bytes, int error) {
  throw base::UserError({.where = folder.string(),
                         .expected = "room for " + base::human_bytes(bytes) + " of the optimizer's state",
                         .found = std::strerror(error),
                         .cause = "offloading keeps the state in a file of this folder",
                         .fix = "name another folder, or leave offloading out"});
}

}  // namespace

at::Tensor lazy_zeros(std::int64_t count, at::ScalarType dtype) {
  const std::size_t bytes = std::max<std::size_t>(bytes_of(count, dtype), 1);
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  (void)::madvise(memory, bytes, MADV_NOHUGEPAGE);  // else neighbors of what is written exist too
  return tensor_over(memory, bytes, count, dtype);
}

at::Tensor file_zeros(const base::fs::path& folder, std::int64_t count, at::ScalarType dtype) {
  const std::size_t bytes = std::max<std::size_t>(bytes_of(count, dtype), 1);
  std::error_code made;
  base::fs::create_directories(folder, made);
  const int file = base::unnamed_file(folder);
  if (file < 0) throw_no_file(folder, bytes, errno);
  // the room is taken now: a full disk later would be a bus error
  const int failed = ::posix_fallocate(file, 0, static_cast<::off_t>(bytes));
  void* const memory =
      failed != 0 ? MAP_FAILED : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = failed != 0 ? failed : errno;
  ::close(file);
  if (memory == MAP_FAILED) throw_no_file(folder, bytes, error);
  return tensor_over(memory, bytes, count, dtype);
}

void clear_pages(const at::Tensor& flat, std::int64_t begin, std::int64_t end) {
  const Pages pages = pages_of(flat, begin, end);
  std::fill(pages.begin, pages.first, std::byte{0});
  if (pages.last > pages.first &&
      ::madvise(pages.first, static_cast<std::size_t>(pages.last - pages.first), MADV_DONTNEED) != 0)
    std::fill(pages.first, pages.last, std::byte{0});
  std::fill(pages.last, pages.end, std::byte{0});
}

void page_out(const at::Tensor& flat, std::int64_t begin, std::int64_t end) {
  const Pages pages = pages_of(flat, begin, end);
  if (pages.last <= pages.first) return;
  const auto bytes = static_cast<std::size_t>(pages.last - pages.first);
  (void)::msync(pages.first, bytes, MS_ASYNC);
  (void)::madvise(pages.first, bytes,
                  MADV_DONTNEED);  // of a shared file mapping: the values stay in the file
}

}  // namespace hone::ops
