// Versions within a bound of memory, the others in a file.
#include "serve/kept_versions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "model/tiny_model.h"

namespace hone::serve {
namespace kept_versions_test {

using namespace hone::test_tools;

constexpr std::int64_t kNumbers = 8 * (16 + 24);   // of one version: A [8, 16] and B [24, 8] of one linear
constexpr std::int64_t kBytes = 2 * 6 * kNumbers;  // of two linears, with the copies that products read

std::array<ops::Linear, 2>& linears() {
  static std::array<ops::Linear, 2> all;
  return all;
}

Version version_of(int number) {
  ops::AdapterSides out;
  for (const ops::Linear& linear : linears()) {
    ops::LoraWeights side;
    side.a = at::full({8, 16}, number + 0.1, at::kFloat);
    side.b = at::full({24, 8}, -number, at::kFloat);
    side.scale = number;
    out.emplace(&linear, std::move(side));
  }
  return std::make_shared<const ops::AdapterSides>(std::move(out));
}

void expect_is(const std::optional<Version>& found, int number) {
  ASSERT_TRUE(found.has_value());
  for (const ops::Linear& linear : linears()) {
    const ops::LoraWeights& side = (*found)->at(&linear);
    EXPECT_TRUE(at::equal(side.a, at::full({8, 16}, number + 0.1, at::kFloat)));
    EXPECT_TRUE(at::equal(side.b, at::full({24, 8}, -number, at::kFloat)));
    EXPECT_EQ(side.scale, number);
  }
}

TEST(KeptVersions, MemoryIsBoundedAndEachComesBackInItsBits) {
  const TempFolder folder;
  KeptVersions versions({.folder = folder.path() / "root", .bound = 3 * kBytes});
  std::vector<Kept> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(versions.keep(version_of(i)));
    EXPECT_LE(versions.facts().bytes, 3 * kBytes);
  }
  EXPECT_EQ(versions.facts().versions, 20);
  EXPECT_EQ(versions.facts().file_bytes, 17 * 8 * kNumbers);
  EXPECT_TRUE(base::fs::is_empty(folder.path() / "root"));  // the file has no name
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 19; i >= 0; --i) {
      expect_is(versions.use(all[static_cast<std::size_t>(i)]), i);
      EXPECT_LE(versions.facts().bytes, 3 * kBytes);
    }
  }
  EXPECT_EQ(versions.facts().file_bytes, 20 * 8 * kNumbers);  // each was written once
  EXPECT_EQ(versions.use(nullptr), Version());                // the base
}

TEST(KeptVersions, PlacesAreGivenBack) {
  const TempFolder folder;
  KeptVersions versions({.folder = folder.path(), .bound = kBytes});
  {
    std::vector<Kept> all;
    for (int i = 0; i < 5; ++i) all.push_back(versions.keep(version_of(i)));
    const Kept again = all[1];
    all.clear();
    EXPECT_EQ(versions.facts().versions, 1);
    for (int i = 5; i < 9; ++i) all.push_back(versions.keep(version_of(i)));  // in places of others
    expect_is(versions.use(again), 1);
    for (int i = 5; i < 9; ++i) expect_is(versions.use(all[static_cast<std::size_t>(i - 5)]), i);
  }
  EXPECT_EQ(versions.facts().versions, 0);
  EXPECT_EQ(versions.facts().bytes, 0);
  EXPECT_EQ(versions.facts().file_bytes, 0);
}

TEST(KeptVersions, WhatRequestsHaveStays) {
  const TempFolder folder;
  KeptVersions versions({.folder = folder.path(), .bound = 2 * kBytes});
  std::vector<Kept> all;
  for (int i = 0; i < 4; ++i) all.push_back(versions.keep(version_of(i)));
  std::optional<Version> first = versions.use(all[0]), second = versions.use(all[1]);
  EXPECT_FALSE(versions.use(all[2]).has_value());  // two that are used fill the memory
  expect_is(versions.use(all[0]), 0);
  first.reset();
  expect_is(versions.use(all[2]), 2);
  expect_is(second, 1);
  KeptVersions small({.folder = folder.path(), .bound = 1});
  const Kept large = small.keep(version_of(7)), other = small.keep(version_of(8));
  expect_is(small.use(large), 7);  // alone
}

TEST(KeptVersions, AFileThatCannotBeWrittenIsTold) {
  KeptVersions versions({.folder = "/proc/none", .bound = kBytes});
  const Kept first = versions.keep(version_of(1));
  try {
    versions.keep(version_of(2));
    FAIL() << "nothing was thrown";
  } catch (const base::UserError& error) {
    const std::string said = error.what();
    EXPECT_NE(said.find("--adapter_memory"), std::string::npos) << said;
    EXPECT_EQ(said.find("/proc"), std::string::npos) << said;
  }
  EXPECT_EQ(versions.facts().versions, 1);
  expect_is(versions.use(first), 1);
}

TEST(KeptVersions, AFailedWriteLeavesAllAsItWas) {
  const TempFolder folder;
  const base::fs::path root = folder.path() / "root";
  KeptVersions versions({.folder = root, .bound = 2 * kBytes});
  const Kept first = versions.keep(version_of(1));
  const std::optional<Version> asked = versions.use(first);
  const Kept second = versions.keep(version_of(2));
  std::ofstream(root) << "no folder";
  EXPECT_THROW(versions.keep(version_of(3)), base::UserError);
  EXPECT_EQ(versions.facts().bytes, 2 * kBytes);
  base::fs::remove(root);
  const Kept third = versions.keep(version_of(3));  // the second is in the file: a request has the first
  EXPECT_EQ(versions.facts().file_bytes, 8 * kNumbers);
  const std::optional<Version> last = versions.use(third);
  EXPECT_FALSE(versions.use(second).has_value());
  EXPECT_LE(versions.facts().bytes, 2 * kBytes);
}

TEST(KeptVersions, AFailedWriteBehindAUseIsToldOnce) {
  KeptVersions versions({.folder = "/proc/none", .bound = 2 * kBytes});
  const Kept first = versions.keep(version_of(1));
  const std::optional<Version> asked = versions.use(first);
  const Kept second = versions.keep(version_of(2));
  std::optional<Version> held = versions.use(second);
  const Version newest = version_of(3);
  const Kept third = versions.keep(newest);  // requests have all three: none can go
  held.reset();
  testing::internal::CaptureStderr();
  expect_is(versions.use(first), 1);  // the second could go now, and cannot be written
  expect_is(versions.use(third), 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("versions  stay in memory"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(versions.facts().bytes, 3 * kBytes);
}

TEST(KeptVersions, WhatARequestHasCountsBehindItsSession) {
  const TempFolder folder;
  KeptVersions versions({.folder = folder.path(), .bound = 2 * kBytes});
  Kept first = versions.keep(version_of(1));
  std::optional<Version> asked = versions.use(first);
  first.reset();
  EXPECT_EQ(versions.facts().versions, 0);
  EXPECT_EQ(versions.facts().bytes, kBytes);
  const Kept second = versions.keep(version_of(2)), third = versions.keep(version_of(3));
  EXPECT_EQ(versions.facts().bytes, 2 * kBytes);  // one of both is in the file
  EXPECT_EQ(versions.facts().file_bytes, 8 * kNumbers);
  const std::optional<Version> last = versions.use(third);
  EXPECT_FALSE(versions.use(second).has_value());
  asked.reset();
  expect_is(versions.use(second), 2);
  EXPECT_EQ(versions.facts().bytes, 2 * kBytes);
}

}  // namespace kept_versions_test
}  // namespace hone::serve
