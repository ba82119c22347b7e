// Memory page by page: buffers of which only the pages that are written exist, and that give pages back. On the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/files/file.h"

namespace hone::ops {

// [count] zeros of `dtype`. A page takes memory from when it is written first.
at::Tensor lazy_zeros(std::int64_t count, at::ScalarType dtype);
// The same in a file without a name in `folder`, which is created if needed: the system may write pages to the disk and
// read them again. UserError when the folder has no room for it, or cannot be written.
at::Tensor file_zeros(const base::fs::path& folder, std::int64_t count, at::ScalarType dtype);

// Of a buffer of lazy_zeros(), flat and contiguous: the elements [begin, end) are zeros again, and their pages are given
// back. Elements that share a page with others are set to zero.
void clear_pages(const at::Tensor& flat, std::int64_t begin, std::int64_t end);
// Takes a buffer of file_zeros(): these pages no longer count as memory of the process; the elements keep
// their values.
void page_out(const at::Tensor& flat, std::int64_t begin, std::int64_t end);

}  // namespace hone::ops
