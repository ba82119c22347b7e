// Completions that a model wrote to break the reward: every native reward ends soon, with a score.
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "base/files/file.h"
#include "base/json.h"
#include "fuzz/mutate.h"
#include "rewards/math/accuracy_reward.h"
#include "rewards/open_reward.h"

namespace hone::rewards {
namespace native_fuzz_test {

using fuzz::Random;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string times(const std::string& text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string box(const std::string& text) {
  return "\\boxed{" + text + "}";
}

// What was deep, quadratic or exponential somewhere, `size` characters each.
std::vector<std::string> hostile_texts(std::size_t size) {
  std::vector<std::string> out;
  const auto fill = [size](const std::string& piece) { return times(piece, size / piece.size() + 1); };
  for (const char* const piece : {"+",         "-",          "1+",
                                  "x+",        "x",          "x/",
                                  "1!",        "2^",         "x^",
                                  "x_",        "1_",         "\\sin",
                                  "1,",        "x,1,2,y,",   "x=",
                                  "x<",        "x≈",         "\\text{",
                                  "\\sqrt",    "1;",         "[1,",
                                  "\\{1,",     "f(",         "\\left(",
                                  "{,}",       "\\ ",        "|",
                                  "|x|",       "1",          "1,111",
                                  "\\pm",      "(1,2)\\cup", "1!!",
                                  "\\frac12",  "\\frac",     "\\log_",
                                  "x!=",       " ",          "\\binom{10000}{9999}+",
                                  "d ",        "{",          "(",
                                  "\\(",       "-x",         "\\tfrac1",
                                  "\\text{a}", "(x",         "9^",
                                  "e^"})
    out.push_back(box(fill(piece) + "1"));
  for (const char* const piece : {"\\boxed{1}", "\\boxed{1}\\boxed{2}",
                                  "\\boxed{",   "\\fbox",
                                  "$",          "$1$ ",
                                  "$$",         " [",
                                  "\\(",        "\\[",
                                  "answer ",    "final answer is ",
                                  "answer: $",  " ",
                                  "1 ",         "1+",
                                  "(1+",        "\\",
                                  "and ",       "</think>",
                                  "<think>",    "####"})
    out.push_back(fill(piece));
  for (const auto& [open, close] : std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                                                    {"{", "}"},
                                                                                    {"[", "]"},
                                                                                    {"\\{", "\\}"},
                                                                                    {"9^{", "}"},
                                                                                    {"\\frac{1}{", "}"},
                                                                                    {"\\sqrt{", "}"},
                                                                                    {"x_{", "}"},
                                                                                    {"\\boxed{", "}"},
                                                                                    {"(1,", ")"}}) {
    const std::size_t count = size / (open.size() + close.size()) + 1;
    out.push_back(box(times(open, count) + "9" + times(close, count)));
    out.push_back(box(times(open, 14) + "9" + times(close, 13)));
  }
  out.push_back(box("0." + fill("1")));
  out.push_back(box("1E" + fill("9")));
  out.push_back(box("x=" + fill("x=") + "\\cup"));
  out.push_back(box("9^{9^{9^{9^9}}}"));
  out.push_back(box("100000000!") + box("(10^{1000})!^{10^{1000}}"));
  out.push_back(box(fill(" ") + "and"));
  out.push_back("\\boxed{" + times("\\{", 12) + "1,2" + times("\\}", 12));
  return out;
}

// accuracy_reward on texts as gold, as completion, as both; the value is 0, 1 or none, and soon.
void expect_judged(const std::string& gold, const std::string& text, double most_seconds) {
  const double start = cpu_seconds();
  judge_accuracy("1", text);
  judge_accuracy("$\\{1, 2, x\\}$", text, /*lenient=*/true);
  const AccuracyResult both = judge_accuracy(gold, text);
  EXPECT_TRUE(both.correct.has_value() || both.gold == "[unparseable]");
  EXPECT_LT(cpu_seconds() - start, most_seconds) << text.substr(0, 200);
}

const std::vector<std::unique_ptr<Reward>>& all_rewards() {
  static const auto all = open_rewards(
      {"accuracy_reward", "reasoning_accuracy_reward(lenient=true)", "get_cosine_scaled_reward(max_len=9)",
       "think_format_reward", "get_soft_overlong_punishment", "get_repetition_penalty_reward",
       "exact_match(column=solution)", R"(regex(pattern="^<think>.*?</think>\s*(\d+|(a+)+)$", dotall=true))",
       "length(target=3, unit=characters)"},
      {});
  return all;
}

void expect_scores(const std::string& text, double most_seconds) {
  Request request;
  request.completions.emplace_back(text);
  request.completion_ids.emplace_back(text.begin(), text.end());
  request.columns["solution"] = base::Json::array({"42"});
  for (const auto& reward : all_rewards()) {
    const double start = cpu_seconds();
    const Scores scores = reward->score(request);
    EXPECT_LT(cpu_seconds() - start, most_seconds) << reward->name() << ": " << text.substr(0, 200);
    EXPECT_EQ(scores.values.size(), 1U);
    EXPECT_FALSE(std::isinf(scores.values[0]));
  }
}

// Recorded answers and hostile ones; a mutation joins pieces of several.
std::vector<std::string> corpus() {
  const std::string path = HONE_FIXTURES "/parity/rewards/accuracy.json";
  const base::Json recorded = base::parse_json(base::read_text(path), path);
  std::vector<std::string> out = hostile_texts(300);
  for (const auto& [name, rows] : recorded.at("classes").items())
    for (std::size_t i = 0; i < rows.size(); i += 40) {
      out.push_back(rows[i][0].get<std::string>());
      out.push_back(rows[i][1].get<std::string>());
    }
  return out;
}

std::string piece_of(const std::string& text, Random& random) {
  const std::size_t from = random.below(text.size() + 1);
  return text.substr(from, 1 + random.below(30));
}

std::string grown(const std::vector<std::string>& all, const std::string& text, Random& random,
                  std::size_t most) {
  static const std::vector<std::pair<std::string, std::string>> around = {
      {"(", ")"},        {"{", "}"},      {"\\frac{1}{", "}"},
      {"x^{", "}"},      {"\\{", "\\}"},  {"[", ","},
      {"\\boxed{", "}"}, {"$", "$"},      {"<think>", "</think>"},
      {"\\text{", "}"},  {"f(", ")"},     {"|", "|"},
      {"-", ""},         {"\\sqrt{", "}"}};
  std::string out = text;
  for (std::size_t n = random.below(5); n > 0; --n) {
    switch (random.below(4)) {
      case 0:
        out.insert(random.below(out.size() + 1),
                   times(piece_of(random.one_of(all), random), random.below(40)));
        break;
      case 1: {
        const auto& [open, close] = random.one_of(around);
        const std::size_t count = random.below(random.below(4) == 0 ? 200 : 4);
        out = times(open, count) + out + times(close, count);
        break;
      }
      case 2:
        out += piece_of(random.one_of(all), random);
        break;
      default:
        out = fuzz::mutated_bytes(out, random);
    }
    if (out.size() > most) out.resize(most);
  }
  return random.below(2) == 0 ? out : box(out);
}

void fuzz_rewards(double most_seconds, std::size_t most_characters) {
  const std::vector<std::string> all = corpus();
  const auto count = fuzz::run(
      most_seconds, all,
      [&](const std::string& text, Random& random) { return grown(all, text, random, most_characters); },
      [&](const std::string& text) {
        expect_judged(text, text, 10);
        expect_scores(text, 10);
      });
  EXPECT_EQ(count.refused, 0U);  // a completion is never an error of the user's
}

TEST(NativeFuzz, WhatAModelCanWriteEndsSoon) {
  // SIGSEGV once; depth is the limit, as Python's is for math_verify.
  EXPECT_EQ(judge_accuracy("1", box(times("+", 30'000) + "1")).correct, false);
  EXPECT_EQ(judge_accuracy("1", box(times("+", 100) + "1")).correct, true);
  // Over 40 s once.
  EXPECT_EQ(judge_accuracy("1", times("\\boxed{1}", 20'000)).correct, true);
  EXPECT_EQ(judge_accuracy("2", times("\\boxed{1}", 20'000)).correct, false);
}

// math_verify's time-out: a gold has no score, an answer is wrong.
TEST(NativeFuzz, TextsOverTheBudgetCannotBeRead) {
  const std::string over = box(times("\\frac{1}{2}+", 30'000) + "1");
  const AccuracyResult gold = judge_accuracy("$" + over + "$", box("1"));
  EXPECT_FALSE(gold.correct.has_value());
  EXPECT_EQ(gold.gold, "[unparseable]");
  const AccuracyResult answer = judge_accuracy("1", over);
  EXPECT_EQ(answer.correct, false);
  EXPECT_EQ(answer.answer, "[unparseable]");
}

TEST(NativeFuzz, LongReasoningIsWithinTheBudget) {  // 300 KB, more than any completion today
  const std::string thought =
      "Let $x = \\frac{a}{b}$, so the answer is near 3.5 and x^2 + [1, 2] is 1,234 (or 20%).\n\\[ y = x^2 "
      "\\]\n";
  const std::string text = times(thought, 300'000 / thought.size()) + "Hence \\boxed{\\frac{1}{2}}.";
  EXPECT_EQ(judge_accuracy("0.5", text).correct, true);
  EXPECT_EQ(judge_accuracy("$\\frac{1}{2}$", text).correct, true);
}

TEST(NativeFuzz, Texts) {
  fuzz_rewards(fuzz::seconds(2), 2000);
}

TEST(NativeFuzz, SlowTexts) {
  fuzz_rewards(fuzz::seconds(60), 200'000);
}

TEST(NativeFuzz, SlowLongHostileTexts) {  // a megabyte each
  for (const std::string& text : hostile_texts(1'000'000)) {
    expect_judged(text, text, 30);
    expect_scores(text, 30);
  }
}

}  // namespace native_fuzz_test
}  // namespace hone::rewards
