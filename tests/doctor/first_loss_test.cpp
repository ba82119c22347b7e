// Each cause of a high first loss beside its neighbors: the same symptom, another experiment that decides. The
// messages are golden.
#include "doctor/probes/first_loss.h"

#include <gtest/gtest.h>

namespace hone::doctor {
namespace first_loss_test {

using base::Level;

// An Instruct model of 49,152 tokens that knows English, its own text and its tokenizer; rows that it does not.
FirstLossFacts facts() {
  return {.loss = 7.5,
          .uniform = 10.8,
          .scored = 60,
          .own_loss = 1.9,
          .own_entropy = 1.8,
          .own_kept = 0.99,
          .english = 3.1};
}

TEST(FirstLoss, TextThatTheBaseHardlyKnowsIsNoFault) {
  const base::Verdict found = judge_high_loss(facts());
  EXPECT_EQ(found.code, "NUM-02");
  EXPECT_EQ(found.level, Level::kNote);
  EXPECT_EQ(found.what, "the first loss is 7.5, ln V is 10.8: text that this base has hardly seen");
  EXPECT_EQ(
      found.evidence,
      "0.694 of ln V over 60 tokens; a pretrained base is below 0.6; text that the base generates 1.9 (0.176 of "
      "ln V), plain English 3.1 (0.287 of ln V)");
  EXPECT_EQ(found.cause, "a language, symbols or a form that its training did not have");
  EXPECT_EQ(
      found.not_this,
      "an untrained base (its own text has 0.176 of ln V); a new adapter (with B = 0 it adds nothing); the base "
      "and its tokenizer (plain English has 0.287 of ln V)");
  EXPECT_EQ(found.fix,
            "nothing, if these rows are what it is to learn; else look at the example on the start page");
}

TEST(FirstLoss, PlainRowsOfABaseThatKnowsThemInItsTemplate) {
  FirstLossFacts known = facts();
  known.in_template = 3.2;
  const base::Verdict found = judge_high_loss(known);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_EQ(found.cause, "the rows are plain text, and this base knows them as turns of its chat template");
  EXPECT_NE(found.evidence.find("the same rows in the chat template 3.2 (0.296 of ln V)"), std::string::npos);
  EXPECT_EQ(
      found.fix,
      "write the rows as messages, or as conversational prompt and completion; keep them plain if the adapter is "
      "to be used without the template");
  known.in_template = 7.1;  // the neighbor: the template changes nothing
  const base::Verdict other = judge_high_loss(known);
  EXPECT_EQ(other.level, Level::kNote);
  EXPECT_NE(other.not_this.find("the form of the rows (the chat template does not lower the loss)"),
            std::string::npos);
}

TEST(FirstLoss, CompletionsThatAreEmpty) {
  FirstLossFacts known = facts();
  known.ends = 1;
  const base::Verdict found = judge_high_loss(known);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_EQ(found.cause, "completions are empty: 100 % of the targets are an end of sequence or white space");
  known.ends = 0.5;  // the neighbor: short answers with an end
  EXPECT_EQ(judge_high_loss(known).level, Level::kNote);
}

TEST(FirstLoss, AnUntrainedBaseAndADamagedOne) {
  FirstLossFacts known = facts();
  known.loss = 10.7, known.english = 10.9, known.own_loss = 10.6, known.own_entropy = 10.7;
  const base::Verdict untrained = judge_high_loss(known);
  EXPECT_EQ(untrained.level, Level::kNote);
  EXPECT_EQ(untrained.what, "the first loss is 10.7, ln V is 10.8: the base is untrained");
  EXPECT_EQ(untrained.cause, "its own text has the entropy of random weights, 0.991 of ln V");
  known.own_loss = 7.9, known.own_entropy = 7.8;  // the neighbor: it is sure of wrong things
  const base::Verdict damaged = judge_high_loss(known);
  EXPECT_EQ(damaged.level, Level::kWarn);
  EXPECT_EQ(damaged.cause,
            "suspected: weights that are damaged, or read in another way than they were written");
  EXPECT_NE(damaged.not_this.find("the tokenizer (it keeps 99 % of the base's own tokens)"),
            std::string::npos);
}

TEST(FirstLoss, ATokenizerOfAnotherModel) {
  FirstLossFacts known = facts();
  known.english = 12.4, known.own_kept = 0.41;
  const base::Verdict found = judge_high_loss(known);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_EQ(
      found.cause,
      "the tokenizer is not the one that this base was trained with: of the base's own tokens 41 % survive "
      "decoding and encoding");
  EXPECT_EQ(found.fix, "take tokenizer and weights from one download; compare `hone generate`");
  known.own_kept = 0.97;  // the neighbor: a base of another language, sure of its own text
  EXPECT_EQ(judge_high_loss(known).level, Level::kNote);
}

}  // namespace first_loss_test
}  // namespace hone::doctor
