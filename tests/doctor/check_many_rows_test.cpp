// Checks of many rows together and of checkpoints, on opened runs: each planted, each with a healthy neighbor.
#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"

namespace hone::test_tools {
namespace check_many_rows_test {

using base::Json;
using base::Level;
using base::Verdict;
using doctor::Verdicts;

// Words that stand in no other row.
std::string own_words(int row, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += " w" + std::to_string(row) + "x" + std::to_string(i);
  return out;
}

class CheckManyRows : public CheckRuns {
 protected:
  using Row = std::function<Json(int)>;
  std::string lines(const std::string& name, const Row& row, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(i).dump() + "\n";
    return file(name, text);
  }
  Verdicts look(const Row& row, int count = 60) {
    const auto run = open_sft({"--dataset_name", lines("many.jsonl", row, count)});
    const Verdicts all = doctor::check_many_rows(*run);
    expect_complete(all);
    return all;
  }
  static Json pair(int i, const std::string& answer) {
    return {{"prompt", "Tell me of" + own_words(i, 6)}, {"completion", answer}};
  }
};

// The first verdict that says `text`; an empty one: none does.
Verdict that_says(const Verdicts& all, const std::string& text) {
  for (const Verdict& one : all) {
    if (one.what.find(text) != std::string::npos) return one;
  }
  return {};
}

TEST_F(CheckManyRows, HealthyRowsGiveNoWarning) {
  for (const Verdict& one :
       look([](int i) { return pair(i, " It is" + own_words(i + 1000, 12) + "."); }, 240))
    EXPECT_EQ(one.level, Level::kOk) << one.what << ' ' << one.evidence;
}

TEST_F(CheckManyRows, NearCopiesAndNotAnotherAnswer) {
  const Verdicts found =
      look([](int i) { return pair(i, own_words(i / 2 * 2 + 500, 120) + " " + std::to_string(i)); });
  const Verdict twins = that_says(found, "nearly repeat another one");
  EXPECT_EQ(twins.code, "DATA-13");
  EXPECT_EQ(twins.level, Level::kWarn);
  EXPECT_SAYS(twins.what, "30 of the first 60 rows");
  EXPECT_SAYS(twins.evidence, "many.jsonl:2 and ");
  const Verdicts other = look([](int i) { return pair(i / 2, own_words(i + 500, 40)); });
  EXPECT_EQ(that_says(other, "nearly repeat").what, "") << "one prompt, two answers";
}

TEST_F(CheckManyRows, DegenerateAnswers) {
  const auto every_tenth = [this](const std::string& bad, const std::string& text) {
    return that_says(
        look([&](int i) { return pair(i, i % 10 == 0 ? bad : " Fine" + own_words(i + 99, 5) + "."); }), text);
  };
  EXPECT_SAYS(every_tenth(std::string(80, '='), "mostly one character").evidence, "`=`");
  EXPECT_SAYS(every_tenth("Yes, of course.\nYes, of course.\nYes, of course.\nYes, of course.\nNo.",
                          "repeats one line")
                  .what,
              "6 of the first 60 rows");
  EXPECT_SAYS(every_tenth("na\xEF\xBF\xBDve words", "U+FFFD").cause, "another encoding");
  EXPECT_SAYS(every_tenth("<think>\nLet me see, and see", "never closed").what, "6 of the first 60");
  EXPECT_SAYS(every_tenth("I'm ChatGPT, and I help.", "speaks as another assistant").evidence, "i'm chatgpt");
  const Verdict same = that_says(look([](int i) {
                                   return Json{{"prompt", "Tell me of" + own_words(i, 6)},
                                               {"completion", "Tell me of" + own_words(i, 6)}};
                                 }),
                                 "have their prompt as the answer");
  EXPECT_EQ(same.level, Level::kWarn);
}

TEST_F(CheckManyRows, ReasoningInAPartOfTheRows) {
  const auto mixed = [this](int every, const std::string& before) {
    return that_says(look(
                         [&](int i) {
                           Json row = pair(i, (i % every == 0 ? "<think>\nso\n</think>\n" : "") +
                                                  own_words(i + 500, 5) + ".");
                           row["prompt"] = row["prompt"].get<std::string>() + before;
                           return row;
                         },
                         240),
                     "have a think block");
  };
  EXPECT_EQ(mixed(2, "").level, Level::kWarn);
  EXPECT_SAYS(mixed(2, "").what, "120 of the first 240 rows");
  EXPECT_EQ(mixed(1, "").what, "") << "all of them";
  EXPECT_EQ(mixed(2, " /think").what, "") << "a switch";
}

TEST_F(CheckManyRows, SecretsAreFoundInPromptsToo) {
  const std::string key = "hf_" + std::string("q8Zt3LmV0xR7cKp2Yb9NdW5sHfJ4gTa6");
  const Verdicts all = look([&](int i) {
    return Json{{"prompt", i == 7 ? "HF_TOKEN=" + key : "Tell me of" + own_words(i, 3)},
                {"completion", "Yes" + own_words(i, 4)}};
  });
  const Verdict found = verdict_of(all, "DATA-17");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_TRUE(found.evidence.ends_with("many.jsonl:8: a Hugging Face token")) << found.evidence;
  for (const Verdict& one : all)
    EXPECT_EQ((one.what + one.evidence + one.fix).find(key.substr(3, 8)), std::string::npos);
}

TEST_F(CheckManyRows, ASetInsideAnother) {
  const auto row = [](int i) { return Json{{"text", "Tell me of" + own_words(i, 6)}}; };
  const std::string whole = lines("whole.jsonl", row, 60);
  const auto with = [&](int first) {
    const std::string part = lines("part.jsonl", [&](int i) { return row(first + i); }, 20);
    const Json sets = {{{"path", whole}}, {{"path", part}}};
    const auto run = open_sft({"--datasets", sets.dump()});
    return that_says(doctor::check_many_rows(*run), "is inside the set");
  };
  const Verdict found = with(10);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.evidence, "20 of its 20 prompts");
  EXPECT_EQ(with(60).what, "");
}

// ---- NUM-12
TEST_F(CheckManyRows, TheBestStepIsNotSaved) {
  const std::string eval =
      lines("eval.jsonl", [](int i) { return Json{{"text", "Held out" + own_words(i, 6)}}; }, 8);
  const auto saves = [&](const Words& more) {
    Words words = {"--eval_dataset", eval, "--eval_strategy", "steps", "--max_steps", "400"};
    words.insert(words.end(), more.begin(), more.end());
    const Verdicts all = doctor::check_saves(*open_sft(words));
    expect_complete(all);
    return verdict_of(all, "NUM-12");
  };
  const Verdict apart = saves({"--eval_steps", "50", "--save_steps", "500"});
  EXPECT_EQ(apart.level, Level::kWarn);
  EXPECT_SAYS(apart.cause, "no multiple");
  EXPECT_SAYS(saves({"--eval_steps", "50", "--save_strategy", "no"}).cause, "save_strategy is no");
  EXPECT_SAYS(saves({"--eval_steps", "50", "--save_steps", "50", "--save_total_limit", "2"}).what,
              "may be deleted");
  EXPECT_SAYS(saves({"--eval_steps", "500"}).what, "not one evaluation");
  EXPECT_EQ(saves({"--eval_steps", "200", "--save_steps", "200"}).level, Level::kNote);
  EXPECT_EQ(saves({"--eval_steps", "50", "--save_steps", "100"}).level, Level::kOk);
  EXPECT_EQ(saves({"--eval_steps", "50", "--save_steps", "50", "--save_total_limit", "2",
                   "--load_best_model_at_end", "true"})
                .level,
            Level::kOk);
}

TEST_F(CheckManyRows, ALongRunWithoutAnEvaluation) {
  const auto level = [&](const char* steps) {
    return verdict_of(doctor::check_saves(*open_sft({"--max_steps", steps})), "NUM-12").level;
  };
  EXPECT_EQ(level("2000"), Level::kWarn);
  EXPECT_EQ(level("4"), Level::kOk);
}

// ---- NUM-09: the end of the schedule
TEST_F(CheckManyRows, AnEndWithoutARate) {
  const auto end = [&](const Words& more) {
    Words words = {"--max_steps", "200"};
    words.insert(words.end(), more.begin(), more.end());
    return doctor::check_schedule(*open_sft(words));
  };
  const Verdict idle =
      end({"--lr_scheduler_type", "polynomial", "--lr_scheduler_kwargs", R"({"power": 4, "lr_end": 1e-12})"});
  EXPECT_EQ(idle.level, Level::kWarn);
  EXPECT_SAYS(idle.what, "have next to no learning rate");
  EXPECT_EQ(end({"--lr_scheduler_type", "cosine"}).level, Level::kOk);
  EXPECT_EQ(end({}).level, Level::kOk);
}

}  // namespace check_many_rows_test
}  // namespace hone::test_tools
