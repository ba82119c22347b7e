// Rewards that raise, never match, admit a cheap maximum, draw lots: each named; sound ones not.
#include <chrono>

#include "doctor/check_runs.h"
#include "doctor/probes/rewards/reward_attacks.h"

namespace hone::test_tools {
namespace probe_reward_test {

using base::Level;
using doctor::Depth;
using doctor::probe_reward;
using doctor::Verdicts;

constexpr const char* kFunctions = R"(
import random
calls = []

def log(kind):
    with open(__file__ + ".calls", "a") as out:
        out.write(kind + "\n")

def text(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]

def right(completions, answer, **_):
    for one in completions:
        log(text(one))
    return [1.0 if text(c).strip() == a else 0.0 for c, a in zip(completions, answer)]

def infinite(completions, answer, **_):
    return [float("inf") if a in text(c) else 0.0 for c, a in zip(completions, answer)]

def raises(completions, answer, **_):
    return [1.0 if text(c).split("####")[1].strip() == a else 0.0 for c, a in zip(completions, answer)]

def never(completions, answer, **_):
    return [1.0 if "<SOLUTION>" + a in text(c) else 0.0 for c, a in zip(completions, answer)]

def turned(completions, answer, **_):
    return [-1.0 if a in text(c) else 0.0 for c, a in zip(completions, answer)]

def turned_exact(completions, answer, **_):
    return [0.0 if text(c).strip() == a else 1.0 for c, a in zip(completions, answer)]

def turned_boxed(completions, answer, **_):
    return [0.5 - (1.0 if "\\boxed{" + a + "}" in text(c) else 0.0) for c, a in zip(completions, answer)]

def first_token(completions, completion_ids, answer, **_):
    return [float(a in text(c)) + ids[0] % 3 for c, ids, a in zip(completions, completion_ids, answer)]

def distance(completions, answer, **_):
    def off(c, a):
        digits = "".join(d for d in text(c) if d.isdigit())
        return min(100.0, abs(float(digits[:6]) - float(a))) if digits else 100.0
    return [off(c, a) for c, a in zip(completions, answer)]

def math(completions, task, answer, **_):
    return [float(a in text(c)) if t == "math" else None for c, t, a in zip(completions, task, answer)]

def code(completions, task, **_):
    return [float(len(text(c)) % 3) if t == "code" else None for c, t in zip(completions, task)]

def third(completions, n, **_):
    return [float(len(text(c)) % 4) if i % 3 == 2 else None for c, i in zip(completions, n)]

def even_same(completions, n, **_):
    return [1.0 if i % 2 == 0 else float(len(text(c)) % 4) for c, i in zip(completions, n)]

def rare(completions, n, **_):
    return [float(len(text(c)) % 4) if i == 77 else None for c, i in zip(completions, n)]

def rare_in_a_box(completions, n, **_):
    return [1.0 if i == 13 and "\\boxed{" in text(c) else None for c, i in zip(completions, n)]

def rarely_raises(completions, n, answer, **_):
    return [float(a in text(c)) if i != 5 else 1 / 0 for c, i, a in zip(completions, n, answer)]

def tags(completions, answer, **_):
    return [1.0 if "<answer>" in text(c) else 0.5 if a in text(c) else 0.0 for c, a in zip(completions, answer)]

def mostly_form(completions, answer, **_):
    return [0.6 * ("boxed" in text(c)) + 0.4 * (a in text(c)) for c, a in zip(completions, answer)]

def tolerant(completions, answer, **_):
    def close(c, a):
        digits = "".join(d for d in text(c) if d.isdigit())
        return 1.0 if digits and abs(float(digits[:6]) - float(a)) <= 0.2 * float(a) else 0.0
    return [close(c, a) for c, a in zip(completions, answer)]

def holds_letter(completions, answer, **_):
    return [1.0 if a in text(c).split() else 0.0 for c, a in zip(completions, answer)]

def lots(completions, answer, **_):
    return [random.random() for _ in completions]

def short(completions, answer, **_):
    return [1.0]

def constant(completions, **_):
    return [0.5] * len(completions)

def none(completions, answer, **_):
    return [None] * len(completions)

def shorter(completions, answer, **_):
    return [-0.01 * len(text(c)) for c in completions]

def sorts(completions, answer, **_):
    return sorted(float(a in text(c)) * int(a) for c, a in zip(completions, answer))

def relative(completions, answer, **_):
    right = [float(a in text(c)) * int(a) for c, a in zip(completions, answer)]
    return [r - sum(right) / len(right) for r in right]

def slow(completions, answer, **_):
    import time
    time.sleep(4)
    return [1.0 if a in text(c) else 0.0 for c, a in zip(completions, answer)]

def looks_up(completions, **kwargs):
    wanted = kwargs.get("solution")
    return [0.5] * len(completions) if wanted is None else [float(a in text(c)) for c, a in zip(completions, wanted)]

def defaults(completions, solution=None, **_):
    return [float(a == text(c)) for c, a in zip(completions, solution or [""] * len(completions))]

def asks_first(completions, **columns):
    return [1.0] * len(completions) if "solution" not in columns else [0.0] * len(completions)

def knows_two(completions, **kwargs):
    return [float(a in text(c)) for c, a in zip(completions, kwargs.get("solution") or kwargs["answer"])]

def optional(completions, answer, weights=None, tokenizer=None, **kwargs):
    return [float(a in text(c)) + 0 * kwargs["trainer_state"].global_step for c, a in zip(completions, answer)]

def mean_for_all(completions, answer, **_):
    right = [float(text(c).strip() == a) for c, a in zip(completions, answer)]
    return [sum(right) / len(right)] * len(right)

def of_length(completions, **_):
    return [float(len(text(c)) % 3) for c in completions]

def of_the_row(completions, answer, **_):
    return [float(int(a) % 5) for a in answer]

def exact(completions, answer):
    return [float(text(c).strip() == a) for c, a in zip(completions, answer)]

def centered(completions, answer, **_):
    right = exact(completions, answer)
    return [r - sum(right) / len(right) for r in right]

def centered_by_prompt(completions, answer, **_):
    right = exact(completions, answer)
    groups = {}
    for a, r in zip(answer, right):
        groups.setdefault(a, []).append(r)
    return [r - sum(groups[a]) / len(groups[a]) for a, r in zip(answer, right)]

def standardized(completions, answer, **_):
    right = exact(completions, answer)
    mean = sum(right) / len(right)
    spread = (sum((r - mean) ** 2 for r in right) / len(right)) ** 0.5
    return [(r - mean) / (spread + 1e-6) for r in right]

def ranked(completions, answer, **_):
    right = exact(completions, answer)
    return [sum(other < r for other in right) / len(right) for r in right]

def centered_and_turned(completions, answer, **_):
    return [-r for r in centered(completions, answer)]

def centered_constant(completions, answer, **_):
    return [0.5 - sum([0.5] * len(completions)) / len(completions) for _ in completions]

def by_place(completions, **_):
    return [0.1 * i for i in range(len(completions))]

def of_the_size(completions, **_):
    return [1 / len(completions)] * len(completions)

def picky(completions, **_):
    return [float(text(c)[0] == "A") + 0.1 * len(text(c)) for c in completions]
)";

class ProbeReward : public CheckRuns {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 12; ++i)
      text += R"({"prompt": "What is it?", "answer": ")" + std::to_string(17 + 13 * i) + "\"}\n";
    data_ = file("sums.jsonl", text);
    functions_ = file("rewards.py", kFunctions);
  }
  Verdicts probe(const std::string& word, Depth depth = Depth::kRun, const std::string& most_tokens = "8") {
    const auto run =
        open_grpo({"--dataset_name", data_, "--reward_funcs", word, "--max_completion_length", most_tokens});
    Verdicts out = probe_reward(*run, depth);
    expect_complete(out);
    return out;
  }
  Verdicts of_user(const std::string& name, Depth depth = Depth::kRun) {
    return probe(functions_ + ":" + name, depth);
  }

  std::string data_, functions_;
};

TEST_F(ProbeReward, SoundRewardsHaveNoFault) {
  for (const char* word : {"exact_match(column=answer)", "regex(pattern=\"[0-9]+\", column=answer)",
                           "accuracy_reward(column=answer)", "length(target=5)", "think_format_reward"}) {
    for (const Depth depth : {Depth::kRun, Depth::kDeep}) {
      const Verdicts all = probe(word, depth, "64");
      ASSERT_FALSE(all.empty()) << word;
      for (const base::Verdict& one : all) EXPECT_LE(one.level, Level::kNote) << word << ": " << one.what;
    }
  }
  EXPECT_SAYS(verdict_of(probe("accuracy_reward(column=answer)"), "RL-04").what,
              "scores 1 (gold in \\boxed{}");
  for (const Depth depth : {Depth::kRun, Depth::kDeep}) EXPECT_EQ(failures(of_user("right", depth)), "");
}

TEST_F(ProbeReward, TheUsersFunctionsSeeGoldsAndJunkBeforeARun) {
  of_user("right");
  const std::string seen = base::read_text(functions_ + ".calls");
  EXPECT_SAYS(seen, "\\boxed{17}");
  EXPECT_SAYS(seen, "lorem");
}

TEST_F(ProbeReward, AnOptionLeavesThemAlone) {
  const auto run = open_grpo(
      {"--dataset_name", data_, "--reward_funcs", functions_ + ":right", "--probe_rewards", "false"});
  const Verdicts all = probe_reward(*run, Depth::kRun);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].level, Level::kNote);
  EXPECT_SAYS(all[0].what, "probe_rewards is false");
  EXPECT_FALSE(base::fs::exists(functions_ + ".calls"));
}

TEST_F(ProbeReward, ASlowFunctionIsAskedForTenSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Verdicts all = of_user("slow");
  const auto took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LT(took, 20) << "one call takes 4 s";
  EXPECT_EQ(failures(all), "");
}

TEST_F(ProbeReward, AConstantIsToldBeforeStepOne) {
  const auto found = verdict_of(of_user("constant"), "RL-02");
  EXPECT_EQ(found.level, Level::kWarn) << "other completions may earn another score";
  EXPECT_SAYS(found.what, "reward constant gives every answer 0.5");
  EXPECT_SAYS(found.not_this, "a pattern that never matches");
}

TEST_F(ProbeReward, NoneForAllIsToldBeforeStepOne) {
  const auto found = verdict_of(of_user("none"), "RL-05");
  EXPECT_EQ(found.level, Level::kFail);
  EXPECT_SAYS(found.what, "gives None to every answer");
  EXPECT_SAYS(found.not_this, "an exception");
}

TEST_F(ProbeReward, TheWrongSignAndAnAnswerThatIsNotReadAreToldApart) {
  for (const char* name : {"turned", "turned_exact", "turned_boxed", "distance"}) {
    const Verdicts all = of_user(name);
    const auto turned = verdict_of(all, "RL-04");
    EXPECT_EQ(turned.level, Level::kWarn) << "an answer may be one that is not to be given away";
    EXPECT_SAYS(turned.what, "has the wrong sign: right answers score lower than wrong ones");
    EXPECT_SAYS(turned.cause, "reads the column answer");
    EXPECT_SAYS(turned.not_this, "its scores change");
    EXPECT_EQ(all.front().code, "RL-04") << name << ": before all that follows from it";
    for (const base::Verdict& one : all)
      EXPECT_EQ(one.cause.find("does not look"), std::string::npos) << name << ": " << one.cause;
  }
  const auto shorter = verdict_of(of_user("shorter"), "RL-04");
  EXPECT_EQ(shorter.level, Level::kWarn) << "it does what it says";
  EXPECT_SAYS(shorter.cause, "does not look at the column answer");
}

TEST_F(ProbeReward, WhatDependsOnTheOrderOrOnTheOthers) {
  const auto order = verdict_of(of_user("sorts"), "RL-18");
  EXPECT_EQ(order.level, Level::kWarn);
  EXPECT_SAYS(order.what, "in another order");
  EXPECT_SAYS(order.not_this, "random numbers");
  const auto others = verdict_of(of_user("relative"), "RL-18");
  EXPECT_EQ(others.level, Level::kNote);
  EXPECT_SAYS(others.what, "by the others of its call");
  EXPECT_EQ(failures(of_user("relative")), "") << "means of two calls cannot be compared";
  EXPECT_EQ(verdict_of(of_user("right"), "RL-18").code, "");
  EXPECT_EQ(verdict_of(of_user("lots"), "RL-18").code, "") << "random numbers are RL-05's";
}

TEST_F(ProbeReward, AScoreAgainstTheMeanOfItsCallIsHealthy) {
  for (const char* name : {"centered", "centered_by_prompt", "standardized", "ranked"}) {
    const Verdicts all = of_user(name);
    for (const base::Verdict& one : all) EXPECT_LE(one.level, Level::kNote) << name << ": " << one.what;
    EXPECT_SAYS(verdict_of(all, "RL-18").what, "by the others of its call");
    EXPECT_SAYS(verdict_of(all, "RL-18").evidence, "among answers of every kind");
    EXPECT_SAYS(verdict_of(all, "RL-04").what, "(gold)") << "answers of one call can be compared";
  }
  const auto turned = verdict_of(of_user("centered_and_turned"), "RL-04");
  EXPECT_EQ(turned.level, Level::kWarn);
  EXPECT_SAYS(turned.what, "has the wrong sign");
  EXPECT_SAYS(turned.evidence, "less junk's score in the same call");
}

TEST_F(ProbeReward, WhatIsConstantInAMixedCallTooIsTold) {
  const auto centered = verdict_of(of_user("centered_constant"), "RL-04");
  EXPECT_EQ(centered.level, Level::kWarn);
  EXPECT_SAYS(centered.what, "as to junk");
  const auto size = verdict_of(of_user("of_the_size"), "RL-02");
  EXPECT_EQ(size.level, Level::kWarn);
  EXPECT_SAYS(size.what, "gives every answer");
  const auto place = verdict_of(of_user("by_place"), "RL-18");
  EXPECT_EQ(place.level, Level::kWarn);
  EXPECT_SAYS(place.what, "in another order");
}

// An answer of no text has its end, as what a policy samples.
TEST_F(ProbeReward, AFunctionMayReadTheFirstToken) {
  for (const base::Verdict& one : of_user("first_token"))
    EXPECT_EQ(one.evidence.find("IndexError"), std::string::npos) << one.what << one.evidence;
}

TEST_F(ProbeReward, AFunctionThatRaisesOrIsInfiniteIsNamedWithTheSample) {
  const auto infinite = verdict_of(of_user("infinite"), "RL-05");
  EXPECT_EQ(infinite.level, Level::kWarn) << "wrong answers are scored";
  EXPECT_SAYS(infinite.what, "reward infinite");
  EXPECT_SAYS(infinite.evidence, "sums.jsonl:1");
  const auto raises = verdict_of(of_user("raises"), "RL-05");
  EXPECT_EQ(raises.level, Level::kWarn) << "completions with #### are scored";
  EXPECT_SAYS(raises.evidence, "IndexError");
  const auto shorter = verdict_of(of_user("short"), "RL-05");
  EXPECT_EQ(shorter.level, Level::kFail);
  EXPECT_SAYS(shorter.what, "does not score");
  EXPECT_SAYS(shorter.evidence, "where a list of 8 scores is wanted");
}

TEST_F(ProbeReward, APatternThatNeverMatchesIsSuspected) {
  for (const Verdicts& all :
       {of_user("never"), probe("regex(pattern=\"<SOLUTION>([0-9]+)\", column=answer)")}) {
    const auto found = verdict_of(all, "RL-04");
    EXPECT_EQ(found.level, Level::kWarn);  // the right form may be one that was not tried
    EXPECT_SAYS(found.cause, "suspected");
    EXPECT_SAYS(found.evidence, "17");
  }
}

TEST_F(ProbeReward, ADotThatDoesNotCrossLinesIsFound) {
  const auto found = verdict_of(probe("regex(pattern=\"^<think>.*</think>\")"), "RL-04");
  EXPECT_EQ(found.level, Level::kWarn) << "a model may answer in one line";
  EXPECT_SAYS(found.fix, "dotall");
  EXPECT_NE(verdict_of(probe("regex(pattern=\"^<think>.*</think>\", dotall=true)"), "RL-04").level,
            Level::kFail);
}

TEST_F(ProbeReward, ARewardThatPunishesTheRightAnswerIsFound) {
  for (const Depth depth : {Depth::kRun, Depth::kDeep})  // some rows prove nothing of all
    EXPECT_EQ(verdict_of(of_user("turned", depth), "RL-04").level, Level::kWarn);
}

TEST_F(ProbeReward, AnAdversaryThatEarnsAsMuchIsFound) {
  const auto found = verdict_of(of_user("tags", Depth::kDeep), "RL-07");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "only format tags");
  EXPECT_EQ(verdict_of(of_user("right", Depth::kDeep), "RL-07").level, Level::kOk);
}

TEST_F(ProbeReward, BlindPoliciesAndWrongAnswersThatArePaid) {
  const auto form = verdict_of(of_user("mostly_form", Depth::kDeep), "RL-07");
  EXPECT_EQ(form.level, Level::kWarn);
  EXPECT_SAYS(form.what, "an empty box, which never reads the task, earns 0.6, the right answer 1");
  const auto close = verdict_of(of_user("tolerant", Depth::kDeep), "RL-07");
  EXPECT_EQ(close.level, Level::kWarn);
  EXPECT_SAYS(close.what, "the right answer made wrong");
  EXPECT_SAYS(close.cause, "the form of an answer");
}

// A letter that is right in every fourth row is a guess; a list of all letters that is always right is none.
TEST_F(ProbeReward, AListOfAllLettersIsPaidAndOneLetterIsNot) {
  std::string text;
  for (int i = 0; i < 16; ++i)
    text +=
        R"({"prompt": "Which one?", "answer": ")" + std::string(1, static_cast<char>('A' + i % 4)) + "\"}\n";
  const std::string data = file("letters.jsonl", text);
  const auto of = [&](const char* name) {
    const auto run = open_grpo({"--dataset_name", data, "--reward_funcs", functions_ + ":" + name});
    return verdict_of(probe_reward(*run, Depth::kDeep), "RL-07");
  };
  EXPECT_SAYS(of("holds_letter").what, "A B C D E, which never reads the task");
  EXPECT_EQ(of("right").level, Level::kOk);
}

TEST(RewardAttacks, ARightAnswerIsMadeWrong) {
  EXPECT_EQ(doctor::corrupted_gold("17"), "18");
  EXPECT_EQ(doctor::corrupted_gold("1000"), "1050");
  EXPECT_EQ(doctor::corrupted_gold("-3"), "-2");
  EXPECT_EQ(doctor::corrupted_gold("0"), "1");
  EXPECT_EQ(doctor::corrupted_gold("2.5"), "2.62");
  EXPECT_EQ(doctor::corrupted_gold("Paris"), "aPris");
  EXPECT_EQ(doctor::corrupted_gold("a long sentence of many words"), "");
  EXPECT_EQ(doctor::corrupted_gold("A"), "");
  EXPECT_EQ(doctor::corrupted_gold(""), "");
}

TEST_F(ProbeReward, AFunctionThatDrawsLotsIsFound) {
  const auto found = verdict_of(of_user("lots"), "RL-05");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "a different score when called again");
}

TEST_F(ProbeReward, GoldsThatCannotBeReadAreFound) {
  const std::string data = rows(R"({"prompt": "Name a colour.", "solution": ""})", 8);
  const auto run = open_grpo({"--dataset_name", data, "--reward_funcs", "accuracy_reward"});
  EXPECT_EQ(verdict_of(probe_reward(*run, Depth::kRun), "RL-04").level, Level::kFail);
}

TEST_F(ProbeReward, ARewardModelIsHeldAgainstJunk) {
  const Verdicts all = probe((kParity / "rewards" / "tiny_reward").string());
  EXPECT_EQ(failures(all), "");
  EXPECT_EQ(verdict_of(all, "RL-06").code, "RL-06");
}

TEST_F(ProbeReward, WithoutAnswersTheUsersFunctionGetsPromptsAndJunk) {
  const std::string data = rows(R"({"prompt": "Why?", "topic": "x"})", 4);
  const auto run = open_grpo({"--dataset_name", data, "--reward_funcs", functions_ + ":constant"});
  EXPECT_EQ(verdict_of(probe_reward(*run, Depth::kRun), "RL-02").level, Level::kWarn);
  // One that raises for an empty completion alone is warned of.
  const auto other = open_grpo({"--dataset_name", data, "--reward_funcs", functions_ + ":picky"});
  const auto found = verdict_of(probe_reward(*other, Depth::kRun), "RL-05");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.evidence, "IndexError");
}

// Rows of several tasks in turn, whose other rewards are None, as TRL has it: whatever the period and the
// number of rows.
TEST_F(ProbeReward, TasksInTurnAreHealthy) {
  for (const int count : {16, 100, 1000}) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += R"({"prompt": "What is it?", "task": ")" + std::string(i % 2 == 0 ? "math" : "code") +
              R"(", "n": )" + std::to_string(i) + R"(, "answer": ")" + std::to_string(17 + 13 * i) + "\"}\n";
    }
    const std::string data = file("turns.jsonl", text);
    for (const char* name : {"math", "code", "third", "even_same", "rare", "rarely_raises"}) {
      const auto run = open_grpo({"--dataset_name", data, "--reward_funcs", functions_ + ":" + name});
      const Verdicts all = probe_reward(*run, Depth::kRun);
      expect_complete(all);
      if (std::string(name) == "rare" && count <= 77) {  // the row that it scores is not there
        const auto none = verdict_of(all, "RL-05");
        EXPECT_EQ(none.level, Level::kFail) << count;
        EXPECT_SAYS(none.evidence, "each of them for every row of the data");
        continue;
      }
      EXPECT_EQ(failures(all), "") << name << " of " << count;
      if (std::string(name) == "rarely_raises") continue;
      for (const base::Verdict& one : all)
        EXPECT_LE(one.level, Level::kNote) << name << " of " << count << ": " << one.what << one.evidence;
    }
  }
}

// One row in many, and that in one form of its answer only.
TEST_F(ProbeReward, AScoreOfOneRowInOneFormIsFound) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += R"({"prompt": "What is it?", "n": )" + std::to_string(i) + R"(, "answer": ")" +
            std::to_string(17 + 13 * i) + "\"}\n";
  const auto run = open_grpo(
      {"--dataset_name", file("boxes.jsonl", text), "--reward_funcs", functions_ + ":rare_in_a_box"});
  EXPECT_EQ(failures(probe_reward(*run, Depth::kRun)), "");
}

// Every row was asked, and none has a score: that is proven. Of more rows than are asked it is not.
TEST_F(ProbeReward, NoneIsAFailureOnlyWhereEveryRowWasAsked) {
  const auto found = [&](int count) {
    const std::string data = rows(R"({"prompt": "What is it?", "answer": "1"})", count);
    const auto run = open_grpo({"--dataset_name", data, "--reward_funcs", functions_ + ":none"});
    return verdict_of(probe_reward(*run, Depth::kRun), "RL-05").level;
  };
  EXPECT_EQ(found(200), Level::kFail);
  EXPECT_EQ(found(5000), Level::kWarn);
}

// The form that a reward requires has three times as many tokens as a completion may have.
TEST_F(ProbeReward, AFormThatDoesNotFitACompletionIsFound) {
  EXPECT_EQ(verdict_of(probe("think_format_reward"), "RL-03").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(probe("think_format_reward"), "RL-03").what, "of at most 8 tokens");
  EXPECT_EQ(verdict_of(probe("think_format_reward", Depth::kRun, "64"), "RL-03").code, "");
  EXPECT_EQ(verdict_of(of_user("of_length"), "RL-03").code, "") << "it pays for any text";
}

TEST_F(ProbeReward, ColumnsThatTheDataDoNotHave) {
  for (const char* name : {"looks_up", "defaults", "asks_first"}) {
    const Verdicts all = of_user(name);
    const auto absent = std::find_if(all.begin(), all.end(), [](const base::Verdict& one) {
      return one.what.find("looks up the column solution, which the data do not have") != std::string::npos;
    });
    ASSERT_NE(absent, all.end()) << name;
    EXPECT_EQ(absent->level, Level::kWarn) << name;
    EXPECT_SAYS(absent->evidence, "the rows have answer");
    EXPECT_SAYS(absent->fix, "read the column answer");
  }
  for (const char* name : {"knows_two", "optional", "right"}) {
    for (const base::Verdict& one : of_user(name))
      EXPECT_EQ(one.what.find("looks up"), std::string::npos) << name << ": " << one.what;
  }
}

TEST_F(ProbeReward, OneScoreForAllOfACallAndOfAPrompt) {
  const auto call = verdict_of(of_user("mean_for_all"), "RL-18");
  EXPECT_EQ(call.level, Level::kWarn);
  EXPECT_SAYS(call.evidence, "both in turn 0.5");
  const auto prompt = verdict_of(of_user("of_the_row"), "RL-02");
  EXPECT_EQ(prompt.level, Level::kWarn);
  EXPECT_SAYS(prompt.cause, "not at the completion");
}

// Those of eval_reward_funcs: a broken one stops the run, a doubtful one is a warning, since nothing is trained on it.
TEST_F(ProbeReward, RewardsOfAnEvaluationAreExaminedInAnyMethod) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    const std::string answer = std::to_string(17 + 13 * i);
    text += R"({"prompt": "What is it?", "completion": " )" + answer + R"(", "answer": ")" + answer + "\"}\n";
  }
  const std::string data = file("trained.jsonl", text);
  const auto of = [&](const std::string& word, Depth depth = Depth::kRun) {
    const auto run = open_sft({"--dataset_name", data, "--eval_dataset", data, "--eval_strategy", "steps",
                               "--eval_reward_funcs", word});
    EXPECT_TRUE(doctor::has_rewards(*run));
    Verdicts out = probe_reward(*run, depth);
    expect_complete(out);
    return out;
  };
  EXPECT_EQ(failures(of("exact_match(column=answer)")), "");
  EXPECT_SAYS(verdict_of(of("exact_match(column=completion)"), "RL-04").what,
              "evaluation: reward exact_match");
  const auto raises = verdict_of(of(functions_ + ":raises"), "RL-05");
  EXPECT_EQ(raises.level, Level::kWarn);
  EXPECT_SAYS(raises.cost, "evaluations");
  EXPECT_EQ(verdict_of(of(functions_ + ":turned", Depth::kDeep), "RL-04").level, Level::kWarn);
  const auto none = open_sft();
  EXPECT_FALSE(doctor::has_rewards(*none));
  EXPECT_TRUE(probe_reward(*none, Depth::kRun).empty());
}

}  // namespace probe_reward_test
}  // namespace hone::test_tools
