#include "base/strings/suggest.h"

#include "base/helpers.h"

namespace hone::base {
namespace suggest_test {

const std::vector<std::string> kOptions{"packing",       "eval_packing", "padding_free",
                                        "learning_rate", "output_dir",   "max_length"};

TEST(Suggest, DistanceCountsInsertDeleteReplaceAndSwap) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("packng", "packing"), 1);
  EXPECT_EQ(edit_distance("pakcing", "packing"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // optimal string alignment, not Damerau's 2
  EXPECT_EQ(edit_distance("Learning-Rate", "learning_rate"), 0);
}

TEST(Suggest, NearestComesFirstAndStrangersDoNot) {
  EXPECT_EQ(nearest_names("packng", kOptions).at(0), "packing");
  EXPECT_EQ(nearest_names("output", kOptions), std::vector<std::string>{"output_dir"});
  EXPECT_EQ(nearest_names("learningrate", kOptions), std::vector<std::string>{"learning_rate"});
  EXPECT_TRUE(nearest_names("zzzzzz", kOptions).empty());
  EXPECT_TRUE(nearest_names("", kOptions).empty());
  EXPECT_TRUE(nearest_names(std::string(100'000, 'p'), kOptions).empty());
  EXPECT_EQ(nearest_names("aa", std::vector<std::string>{"ab", "ac", "ad", "ae"}, 2).size(), 2U);
}

TEST(Suggest, NamesOfAsManyWordsAreNearWordByWord) {
  const std::vector<std::string> options = {"share_prompt", "max_new_tokens", "dataset_name"};
  EXPECT_TRUE(nearest_names("system_prompt", options).empty());
  EXPECT_TRUE(nearest_names("max_seq_tokens", options).empty());
  EXPECT_EQ(nearest_names("datset_nmae", options), std::vector<std::string>{"dataset_name"});
  EXPECT_EQ(nearest_names("shared_prompt", options), std::vector<std::string>{"share_prompt"});
}

TEST(Suggest, Sentences) {
  EXPECT_EQ(did_you_mean("outptu_dir", kOptions), " Did you mean 'output_dir'?");
  EXPECT_EQ(did_you_mean("aa", std::vector<std::string>{"ab", "ac"}), " Did you mean 'ab' or 'ac'?");
  EXPECT_EQ(did_you_mean("aa", std::vector<std::string>{"ab", "ac", "ad"}),
            " Did you mean 'ab', 'ac' or 'ad'?");
  EXPECT_EQ(did_you_mean("zzzzzz", kOptions), "");
}

}  // namespace suggest_test
}  // namespace hone::base
