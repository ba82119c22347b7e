#include "model/files/stored_bytes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace stored_bytes_test {

using hone::test_tools::TempFolder;

// A file of `shift` bytes and then `numbers`.
base::MappedFile mapped(const base::fs::path& path, const at::Tensor& numbers, std::size_t shift) {
  std::string bytes(shift, 'x');
  bytes.append(static_cast<const char*>(numbers.const_data_ptr()), numbers.nbytes());
  base::write_file_atomic(path, bytes);
  return base::MappedFile::open(path);
}

// Of the mapping of `path` in this process, in KiB.
long resident(const base::fs::path& path) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path.string()) != std::string::npos) here = true;
    if (here && line.starts_with("Rss:")) return std::stol(line.substr(4));
  }
  return -1;
}

TEST(StoredBytes, ConvertsWhateverTheAddress) {
  at::manual_seed(1);
  const TempFolder folder;
  for (const at::ScalarType stored : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t count : {0, 1, 1000, 2'500'001}) {
      const at::Tensor numbers = at::randn({count}).to(stored);
      for (const std::size_t shift : {8, 9}) {
        const base::MappedFile file = mapped(folder.path() / "numbers", numbers, shift);
        for (const at::ScalarType asked : {at::kFloat, at::kBFloat16, at::kDouble}) {
          const at::Tensor out = at::empty({count}, asked);
          copy_stored(file.bytes().subspan(shift), stored, out);
          EXPECT_TRUE(at::equal(out, numbers.to(asked))) << stored << " " << count << " at " << shift;
        }
      }
    }
  }
}

TEST(StoredBytes, LeavesNoPageOfTheFileBehind) {
  const TempFolder folder;
  const base::fs::path path = folder.path() / "numbers";
  const at::Tensor numbers = at::randn({4'000'000});
  const base::MappedFile file = mapped(path, numbers, 0);
  const at::Tensor out = at::empty_like(numbers);
  copy_stored(file.bytes(), at::kFloat, out);
  EXPECT_TRUE(at::equal(out, numbers));
  if (resident(path) < 0) GTEST_SKIP() << "no /proc/self/smaps";
  EXPECT_LT(resident(path), 512);  // of 15625; what the kernel maps around a fault may stay
}

TEST(StoredBytes, RefusesAnotherSize) {
  const TempFolder folder;
  const base::MappedFile file = mapped(folder.path() / "numbers", at::randn({10}), 0);
  EXPECT_THROW(copy_stored(file.bytes(), at::kFloat, at::empty({9})), base::InternalError);
  EXPECT_THROW(copy_stored(file.bytes(), at::kFloat, at::empty({10, 2}).select(1, 0)), base::InternalError);
}

}  // namespace stored_bytes_test
}  // namespace hone::model
