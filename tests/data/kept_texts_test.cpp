#include "data/files/kept_texts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hone::data {
namespace kept_texts_test {

TEST(KeptTexts, AreReadInAnyOrderInMemoryAndFromAFile) {
  for (const std::size_t most_memory : {std::size_t{1} << 20, std::size_t{700}, std::size_t{0}}) {
    KeptTexts texts(most_memory);
    std::vector<KeptTexts::Place> places;
    std::vector<std::string> expected;
    for (int i = 0; i < 300; ++i) {
      expected.push_back(std::string(static_cast<std::size_t>(i % 41), 'a') + std::to_string(i % 7));
      if (i % 50 == 0) expected.back().clear();
      places.push_back(texts.add(expected.back()));
    }
    for (std::size_t i = 300; i-- > 0;) EXPECT_EQ(texts.at(places[i * 7 % 300]), expected[i * 7 % 300]);
  }
}

}  // namespace kept_texts_test
}  // namespace hone::data
