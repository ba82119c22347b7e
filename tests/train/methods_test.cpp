// Every method has all its parts: a row of options, a row that opens it, and a folder.
#include "train/methods/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/files/file.h"
#include "config/method_of.h"

namespace hone::train {
namespace methods_test {

namespace fs = base::fs;

TEST(Methods, EveryMethodHasARowInBothTables) {
  const std::vector<std::string> words = config::method_names();
  EXPECT_EQ(method_openings().size(), words.size());
  std::set<config::Method> seen;
  for (const std::string& word : words) {
    const std::optional<config::Method> method = config::find_method(word);
    ASSERT_TRUE(method) << word;
    EXPECT_TRUE(seen.insert(*method).second) << word << " stands for a method that another word has";
    const MethodOpening& row = method_opening(*method);
    EXPECT_EQ(row.method, *method) << word;
    EXPECT_NE(row.records == nullptr, row.sampling == nullptr) << word;
    EXPECT_EQ(row.sampling != nullptr, config::samples(*method)) << word;
    EXPECT_LT(row.rates.least, row.rates.usual) << word;
    EXPECT_LT(row.rates.usual, row.rates.most) << word;
  }
}

TEST(Methods, EveryMethodHasAFolderOfItsName) {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(HONE_SOURCE_DIR) / "src" / "train" / "methods")) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  std::set<std::string> expected;
  for (std::string word : config::method_names()) {
    std::replace(word.begin(), word.end(), '-', '_');
    expected.insert(word);
  }
  EXPECT_EQ(folders, expected);
}

}  // namespace methods_test
}  // namespace hone::train
