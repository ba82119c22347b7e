// Buffers that take memory by the page, and give it back (ops/machine/pages.h).
#include "ops/machine/pages.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "base/error.h"

namespace hone::ops {
namespace pages_test {

constexpr std::int64_t kPage = 1024;  // elements of fp32, where pages have 4 KiB

// Pages of the buffer that are in memory.
std::int64_t resident(const at::Tensor& flat) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((flat.nbytes() + page - 1) / page);
  EXPECT_EQ(::mincore(flat.data_ptr(), flat.nbytes(), pages.data()), 0);
  std::int64_t out = 0;
  for (const unsigned char one : pages) out += one & 1;
  return out;
}

TEST(Pages, ExistFromTheFirstWriteToTheyAreCleared) {
  if (::sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "pages of another size";
  const at::Tensor flat = lazy_zeros(64 * kPage, at::kFloat);
  EXPECT_EQ(resident(flat), 0);
  flat.narrow(0, 8 * kPage, 16 * kPage).fill_(2.5);
  EXPECT_EQ(resident(flat), 16);
  // from the middle of a page to the middle of another
  clear_pages(flat, 8 * kPage + 100, 20 * kPage + 50);
  EXPECT_EQ(resident(flat), 16 - 11);
  EXPECT_EQ(flat.sum().item<double>(), 2.5 * (100 + 4 * kPage - 50));
  EXPECT_EQ(flat[8 * kPage + 99].item<float>(), 2.5F);
  EXPECT_EQ(flat[8 * kPage + 100].item<float>(), 0);
  EXPECT_EQ(flat[20 * kPage + 49].item<float>(), 0);
  EXPECT_EQ(flat[20 * kPage + 50].item<float>(), 2.5F);
}

TEST(Pages, PartsWithinAPageAreCleared) {
  const at::Tensor flat = lazy_zeros(3 * kPage, at::kFloat);
  flat.fill_(1);
  clear_pages(flat, 5, 9);
  clear_pages(flat, 7, 7);
  clear_pages(flat, kPage - 1, kPage + 1);
  EXPECT_EQ(flat.sum().item<double>(), static_cast<double>(3 * kPage - 4 - 2));
}

TEST(Pages, OfAFileKeepTheirValues) {
  const base::fs::path folder = base::fs::path(::testing::TempDir()) / "hone_pages_test";
  const at::Tensor flat = file_zeros(folder, 32 * kPage, at::kFloat);
  EXPECT_TRUE(base::fs::is_empty(folder)) << "the file has no name";
  flat.fill_(3);
  page_out(flat, 0, flat.numel());
  EXPECT_EQ(flat.sum().item<double>(), 3.0 * 32 * kPage);
  base::fs::remove(folder);
}

TEST(Pages, AFolderThatCannotBeIsNamed) {
  try {
    file_zeros("/proc/none/at/all", 10, at::kFloat);
    FAIL() << "no error";
  } catch (const base::UserError& error) {
    EXPECT_EQ(error.text().where, "/proc/none/at/all");
  }
}

}  // namespace pages_test
}  // namespace hone::ops
