// Every operator that the tests of this program ran on the stand-in is in operators.txt. tests/house/operators_test.py
// holds that list against what libtorch implements on CUDA.
#include <gtest/gtest.h>

#include <fstream>

#include "standin/standin.h"

namespace hone::standin {
namespace operators_test {

class ListedOperators final : public ::testing::Environment {
  void TearDown() override {
    std::ifstream file(std::string(HONE_SOURCE_DIR) + "/tests/standin/operators.txt");
    std::set<std::string> listed;
    for (std::string line; std::getline(file, line);) listed.insert(line);
    std::string missing;
    for (const std::string& name : operators_run()) {
      if (!listed.contains(name)) missing += name + "\n";
    }
    EXPECT_EQ(missing, "") << "operators that tests/standin/operators.txt lacks; add them there";
  }
};

const auto* const registered = ::testing::AddGlobalTestEnvironment(new ListedOperators);

}  // namespace operators_test
}  // namespace hone::standin
