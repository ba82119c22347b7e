// Rows that train and do not teach what they are to teach (DATA-16), and pairs the wrong way round (PREF-05).
// Each with a healthy neighbor.
#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/row_texts.h"
#include "doctor/probes/rewards/likelier_side.h"

namespace hone::test_tools {
namespace check_texts_test {

using base::Json;
using base::Level;
using doctor::Verdicts;

class CheckTexts : public CheckRuns {
 protected:
  using Row = std::function<Json(int)>;
  std::string rows(const Row& row, int count = 40) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(i).dump() + "\n";
    return file("rows.jsonl", text);
  }
  base::Verdict texts(const Row& row, int count = 40) {
    const auto run = open_sft({"--dataset_name", rows(row, count)});
    const Verdicts all = doctor::check_row_texts(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-16");
  }
  base::Verdict sides(const Row& row, int count = 40) {
    const auto run = open_dpo({"--dataset_name", rows(row, count)});
    const Verdicts all = doctor::check_sides(*run);
    expect_complete(all);
    return verdict_of(all, "PREF-05");
  }
  static std::string n(int i) { return std::to_string(i); }
  static Json turns(const std::vector<std::string>& roles, int i) {
    Json out = Json::array();
    for (const std::string& role : roles)
      out.push_back({{"role", role}, {"content", role + " says " + n(i)}});
    return {{"messages", out}};
  }
  static Json pair(const std::string& question, const std::string& answer) {
    return {{"prompt", question}, {"completion", answer}};
  }
  static Json both(const std::string& chosen, const std::string& rejected, int i) {
    return {{"prompt", "How much is it, " + n(i) + "?"}, {"chosen", chosen}, {"rejected", rejected}};
  }
};

TEST_F(CheckTexts, ControlTokensOfAnotherModel) {
  const auto found = texts([](int i) {
    return Json{
        {"text", "<start_of_turn>user\nHow much? " + n(i) + "<end_of_turn>\n<start_of_turn>model\nThat."}};
  });
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "40 of the first 40 rows hold <start_of_turn>");
  EXPECT_SAYS(found.cause, "another model");
  EXPECT_EQ(texts([](int i) { return Json{{"text", "<b>How</b> much? [a] <s " + n(i)}}; }).level, Level::kOk);
  EXPECT_EQ(
      texts([](int i) {
        return Json{{"text", i % 4 == 0 ? "They write <|eot_id|> there" : "They write no mark " + n(i)}};
      }).level,
      Level::kOk)
      << "texts about such marks";
}

TEST_F(CheckTexts, RolesOfTurns) {
  const auto of = [this](const std::vector<std::string>& roles) {
    return texts([roles](int i) { return turns(roles, i); });
  };
  EXPECT_EQ(of({"user", "assistant"}).level, Level::kOk);
  EXPECT_EQ(of({"system", "user", "assistant", "user", "assistant"}).level, Level::kOk);
  EXPECT_SAYS(of({"assistant", "user"}).cause, "the wrong way round");
  EXPECT_SAYS(of({"system", "assistant", "user"}).cause, "the wrong way round");
  EXPECT_SAYS(of({"user"}).what, "have no assistant's turn");
  EXPECT_SAYS(of({"user", "assistant", "user"}).what, "end with a user's turn");
}

TEST_F(CheckTexts, AnswersThatAreNone) {
  const auto of = [this](const std::string& odd, int every) {
    return texts([=](int i) {
      return pair("How much is it, " + n(i) + "?", i % every == 0 ? odd : " It is " + n(i));
    });
  };
  EXPECT_SAYS(of("", 2).what, "20 of the first 40 rows have an empty answer");
  EXPECT_SAYS(of(" nan", 10).what, "have `nan` as their answer");
  EXPECT_EQ(of("nan", 40).level, Level::kOk) << "one row";
  EXPECT_EQ(of(" no", 2).level, Level::kOk);
  const auto twice =
      texts([](int i) { return pair("How much is it, " + n(i) + "?", "How much is it, " + n(i) + "? 7"); });
  EXPECT_SAYS(twice.what, "begin with the whole prompt");
}

TEST_F(CheckTexts, AnswersThatEndAtOneLength) {
  const std::string words = "I begin at the first number and go on from there until both of them are counted";
  const auto of = [&](std::size_t most, const std::string& end) {
    return texts([=](int i) {
      return pair(
          "Number " + n(i),
          (n(i) + " " + words.substr(0, 10 + static_cast<std::size_t>(7 * i % 60)) + end).substr(0, most));
    });
  };
  const auto found = of(48, "");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "an answer of 48 characters");
  EXPECT_SAYS(found.not_this, "max_length");
  EXPECT_EQ(of(1000, ".").level, Level::kOk);
  EXPECT_EQ(texts([&](int i) { return pair("Number " + n(i), n(10 + i) + " " + words); }).level, Level::kOk)
      << "a template with a number";
}

TEST_F(CheckTexts, ColumnsThatAreNotRead) {
  const auto found = texts([](int i) {
    return Json{{"text", "How much is it, " + n(i) + "?"}, {"answer", "It is " + n(100 + i)}};
  });
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "the column answer is not read");
  EXPECT_EQ(texts([](int i) { return Json{{"text", "Row " + n(i) + " is it"}, {"answer", "it"}}; }).level,
            Level::kOk);
  EXPECT_EQ(texts([](int i) {
              return Json{{"text", "Row " + n(i)}, {"label", i % 2 == 0 ? "good" : "bad"}};
            }).level,
            Level::kOk)
      << "a kind of text";
}

TEST_F(CheckTexts, PromptAndCompletionTheWrongWayRound) {
  const auto of = [this](const std::string& prompt, const std::string& completion) {
    return texts([=](int i) { return pair(prompt + n(i), completion + n(i) + "?"); });
  };
  EXPECT_SAYS(of("It is ", " How much do you think that it is, ").cause, "the wrong way round");
  EXPECT_EQ(
      of("Ask for what stands here, in one sentence that ends with a question mark: ", " How much is ").level,
      Level::kOk)
      << "questions for texts";
}

TEST_F(CheckTexts, SidesOfPairs) {
  const auto good = [](int i) { return " It is " + n(i); };
  const auto bad = [](int i) { return " It is " + n(i + 1); };
  EXPECT_EQ(sides([&](int i) { return both(good(i), bad(i), i); }).level, Level::kOk);
  EXPECT_SAYS(sides([&](int i) { return both(i % 4 == 0 ? "" : good(i), bad(i), i); }).what,
              "an empty chosen completion");
  EXPECT_SAYS(sides([&](int i) { return both(good(i), i % 2 == 0 ? "" : bad(i), i); }).what,
              "an empty rejected completion");
  EXPECT_SAYS(sides([&](int i) { return both(" Yes", bad(i), i); }).what, "chosen is the same text in 40");
  EXPECT_SAYS(sides([&](int i) { return both(good(i), " No", i); }).what, "rejected is the same text in 40");
  EXPECT_EQ(
      sides([&](int i) { return both(i % 2 == 0 ? " Yes" : " No", i % 2 == 0 ? " No" : " Yes", i); }).level,
      Level::kOk);
  const auto refuses = [&](int i) { return " I'm sorry, but I can't say " + n(i); };
  EXPECT_SAYS(sides([&](int i) { return both(refuses(i), good(i), i); }).what, "chosen refuses in 40");
  EXPECT_EQ(sides([&](int i) { return both(good(i), refuses(i), i); }).level, Level::kOk);
}

TEST_F(CheckTexts, WhatStandsBesideThePairs) {
  const auto with = [](Json row, const std::string& name, const Json& value) {
    row[name] = value;
    return row;
  };
  const auto scored = [&](double chosen, double rejected) {
    return sides([=](int i) {
      return with(with(both(" It is " + n(i), " It is " + n(i + 1), i), "score_chosen", chosen),
                  "score_rejected", rejected);
    });
  };
  EXPECT_SAYS(scored(1, 5).what, "rejected has the higher score in 40 of the first 40 pairs");
  EXPECT_EQ(scored(5, 1).level, Level::kOk);
  EXPECT_EQ(scored(3, 3).level, Level::kOk);
  const auto answered = [&](int off) {
    return sides(
        [=](int i) { return with(both(" It is " + n(i), " It is " + n(i + 100), i), "answer", n(i + off)); });
  };
  EXPECT_SAYS(answered(100).what, "the text of the column answer stands in rejected and not in chosen");
  EXPECT_EQ(answered(0).level, Level::kOk);
}

TEST(LikelierSide, WarnsOnlyOfWhatIsOneSided) {
  const auto of = [](double wanted, double unwanted, std::size_t turned, std::size_t count, bool paired,
                     bool brief) {
    doctor::SideLosses out{.wanted = {}, .unwanted = {}, .paired = paired, .brief = brief};
    for (std::size_t i = 0; i < count; ++i) {
      out.wanted.push_back(i < turned ? unwanted : wanted);
      out.unwanted.push_back(i < turned ? wanted : unwanted);
    }
    return doctor::judge_sides(out);
  };
  EXPECT_EQ(of(1.3, 0.6, 0, 8, true, false).level, Level::kOk) << "rejected answers that the model sampled";
  EXPECT_EQ(of(3.0, 0.6, 0, 8, true, false).level, Level::kWarn);
  EXPECT_EQ(of(3.0, 0.6, 1, 8, true, false).level, Level::kOk) << "one pair is the other way round";
  EXPECT_EQ(of(0.6, 3.0, 0, 8, true, false).level, Level::kOk);
  EXPECT_EQ(of(2.0, 1.0, 4, 32, true, true).level, Level::kWarn) << "short answers, most pairs";
  EXPECT_EQ(of(2.0, 1.0, 10, 32, true, true).level, Level::kOk);
  EXPECT_EQ(of(2.0, 1.0, 0, 8, true, true).level, Level::kOk) << "too few";
  EXPECT_EQ(of(2.6, 1.0, 0, 8, false, false).level, Level::kWarn);
  EXPECT_EQ(of(1.4, 1.0, 0, 8, false, false).level, Level::kOk);
  EXPECT_SAYS(of(2.6, 1.0, 0, 8, false, false).cause, "the labels are inverted");
}

TEST(HoldsWord, IsNoPartOfALongerOne) {
  EXPECT_TRUE(doctor::holds_word("It is 17.", "17"));
  EXPECT_FALSE(doctor::holds_word("It is 117", "17"));
  EXPECT_TRUE(doctor::holds_word("117 and 17", "17"));
  EXPECT_FALSE(doctor::holds_word("", "17"));
}

}  // namespace check_texts_test
}  // namespace hone::test_tools
