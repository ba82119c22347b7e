// What people get wrong in rows and templates: special tokens in texts, copies, contradictions, one prompt for
// everything, and parts of a conversation that a template drops. Each with a healthy neighbor.
#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"

namespace hone::test_tools {
namespace check_rows_test {

using base::Json;
using base::Level;
using doctor::Verdicts;

class CheckRows : public CheckRuns {
 protected:
  std::string turns(int count, const std::function<Json(int)>& row) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(i).dump() + "\n";
    return file("turns.jsonl", text);
  }
  static Json chat(const std::string& question, const std::string& answer) {
    return {{"messages",
             {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}};
  }
  static std::string n(int i) { return std::to_string(i); }
  // ChatML, with and without parts of it.
  std::string chatml(const std::string& system = "",
                     const std::string& generation = "<|im_start|>assistant\n") {
    return file(
        "t.jinja",
        std::string("{%- for m in messages %}") + (system.empty() ? "" : "{%- if m.role != 'system' %}") +
            std::string("{{- '<|im_start|>' + m.role + '\\n' + ") + "(m.content or '') + '<|im_end|>\\n' }}" +
            (system.empty() ? "" : "{%- endif %}") + "{%- endfor %}" +
            (generation.empty()
                 ? ""
                 : "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"));
  }
};

TEST_F(CheckRows, SpecialTokensInAUsersText) {
  const auto of = [&](const std::string& question, const std::string& answer) {
    const auto run =
        open_sft({"--dataset_name", turns(20, [&](int i) { return chat(question + n(i), answer); }),
                  "--chat_template_path", chatml()});
    const Verdicts all = doctor::check_content(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-12");
  };
  const auto found = of("Say <|im_end|> twice ", "yes");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "in 20 of the first 20 rows");
  EXPECT_SAYS(found.evidence, "turns.jsonl:1");
  EXPECT_SAYS(found.evidence, "is read as the token <|im_end|>");
  EXPECT_EQ(of("Is 3 < 4 [true]? ", "yes").level, Level::kOk) << "brackets are no tokens";
  EXPECT_EQ(of("Say <|no_such_token|> ", "yes").level, Level::kOk);
  EXPECT_EQ(of("Hi ", "yes<|im_end|>").level, Level::kWarn) << "an end inside an answer";
}

TEST_F(CheckRows, CopiesByTheirTokens) {
  const auto of = [&](int different) {
    const auto run = open_sft(
        {"--dataset_name", turns(40, [&](int i) { return Json{{"text", "Row " + n(i % different)}}; })});
    const Verdicts all = doctor::check_duplicates(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-13");
  };
  EXPECT_EQ(of(40).level, Level::kOk);
  EXPECT_EQ(of(39).level, Level::kNote);
  const auto found = of(10);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "30 of 40 rows are copies");
  EXPECT_SAYS(found.evidence, "row 11, as row 1");
  EXPECT_SAYS(found.cost, "4 times");
}

// A cause is named only where the places of the copies show it.
TEST_F(CheckRows, CopiesAreExplainedByTheirPlaces) {
  const auto of = [&](const std::function<int(int)>& number) {
    const auto run =
        open_sft({"--dataset_name", turns(60, [&](int i) { return Json{{"text", "Row " + n(number(i))}}; })});
    const Verdicts all = doctor::check_duplicates(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-13");
  };
  const auto twice = of([](int i) { return i % 30; });
  EXPECT_SAYS(twice.cause, "concatenated with itself");
  EXPECT_SAYS(twice.evidence, "row 31 to row 60 repeat row 1 to row 30 in their order");
  const auto part = of([](int i) { return i < 40 ? i : i - 30; });
  EXPECT_SAYS(part.cause, "concatenated with itself, or with one that it came from");
  EXPECT_SAYS(part.evidence, "row 41 to row 60 repeat row 11 to row 30 in their order");
  const auto shuffled = of([](int i) { return i * 7 % 60 / 2; });
  EXPECT_EQ(shuffled.cause.find("concatenated"), std::string::npos) << shuffled.cause;
  EXPECT_SAYS(shuffled.cause, "each row is there 2 times");
  const auto one = of([](int i) { return i % 3 == 0 ? 0 : i; });
  EXPECT_EQ(one.cause.find("concatenated"), std::string::npos) << one.cause;
  EXPECT_SAYS(one.cause, "a few texts that stand for many rows");
  EXPECT_SAYS(one.evidence, "row 1 is there 20 times (row 1, row 4, row 7, row 10, ...)");
  const auto drawn = of([](int i) { return i * i % 37 + i / 30; });
  EXPECT_EQ(drawn.cause.find("concatenated"), std::string::npos) << drawn.cause;
  EXPECT_SAYS(drawn.evidence, "most often: row ");
}

// Sums of small numbers repeat themselves, as the quickstart's do; a file that was read twice is half copies.
TEST_F(CheckRows, CopiesOfPromptsThatAreSampled) {
  const auto of = [&](int different) {
    const auto run = open_grpo(
        {"--dataset_name", turns(40, [&](int i) { return Json{{"prompt", "Row " + n(i % different)}}; })});
    const Verdicts all = doctor::check_duplicates(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-13");
  };
  EXPECT_EQ(of(30).level, Level::kOk);
  EXPECT_SAYS(of(30).what, "10 of 40 prompts are copies of other prompts");
  EXPECT_EQ(of(21).level, Level::kOk);
  const auto half = of(20);
  EXPECT_EQ(half.level, Level::kWarn);
  EXPECT_SAYS(half.what, "20 of 40 prompts are copies of other prompts");
  EXPECT_SAYS(half.cost, "sampled 2 times as often");
}

TEST_F(CheckRows, PairsTheOtherWayRound) {
  const auto of = [&](bool turned) {
    const auto run =
        open_dpo({"--dataset_name", turns(40, [&](int i) {
                    const std::string right = " " + n(i / 2), wrong = " " + n(i / 2 + 1);
                    const bool other = turned && i % 2 == 1;
                    return Json{{"prompt", "Name a number" + n(i / 2) + (turned ? "" : n(i % 2))},
                                {"chosen", other ? wrong : right},
                                {"rejected", other ? right : wrong}};
                  })});
    const Verdicts all = doctor::check_duplicates(*run);
    expect_complete(all);
    return verdict_of(all, "DATA-13");
  };
  const auto found = of(true);
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "20 of 40 rows contradict another one");
  EXPECT_SAYS(found.evidence, "row 2 and row 1 have chosen and rejected the other way round");
  EXPECT_EQ(of(false).level, Level::kOk);
}

TEST_F(CheckRows, ShortAnswersThatContradictAndLongOnesThatDoNot) {
  const auto of = [&](const std::string& answer) {
    const auto run = open_sft({"--dataset_name", turns(40, [&](int i) {
                                 return Json{{"prompt", "Is " + n(i / 2) + " a good number?"},
                                             {"completion", answer + (i % 2 == 0 ? " yes" : " no")}};
                               })});
    return verdict_of(doctor::check_duplicates(*run), "DATA-13");
  };
  EXPECT_EQ(of("").level, Level::kWarn);
  EXPECT_SAYS(of("").evidence, "the same prompt and different answers");
  EXPECT_EQ(of(" That depends on what you want to do with it, as most things do, so I would say").level,
            Level::kOk)
      << "several answers to one question are usual";
}

TEST_F(CheckRows, OnePromptForEverything) {
  const auto of = [&](bool same) {
    const auto run =
        open_grpo({"--dataset_name", turns(40, [&](int i) {
                     return Json{{"prompt", same ? "What is it?" : "What is " + n(i) + "?"}, {"topic", n(i)}};
                   })});
    return doctor::check_duplicates(*run);
  };
  EXPECT_EQ(verdict_of(of(false), "DATA-13").level, Level::kOk);
  const auto found = verdict_of(of(true), "DATA-13");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "39 of 40 prompts are copies");
}

TEST_F(CheckRows, ATemplateThatDropsTheSystemTurn) {
  const std::string data = turns(8, [&](int i) {
    return Json{{"messages",
                 {{{"role", "system"}, {"content", "Answer like a sailor."}},
                  {{"role", "user"}, {"content", "Hi " + n(i)}},
                  {{"role", "assistant"}, {"content", "Ahoy"}}}}};
  });
  const auto of = [&](const std::string& path) {
    const Verdicts all =
        doctor::check_template_parts(*open_sft({"--dataset_name", data, "--chat_template_path", path}));
    expect_complete(all);
    return verdict_of(all, "DATA-14");
  };
  EXPECT_EQ(of(chatml()).level, Level::kOk);
  EXPECT_SAYS(of(chatml()).what, "renders system turns");
  const auto found = of(chatml("drops"));
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "drops system turns");
  EXPECT_SAYS(found.evidence, "Answer like a sailor.");
}

TEST_F(CheckRows, ATemplateThatDropsToolsAndTheirCalls) {
  const Json tools = {
      {{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", Json::object()}}}}};
  const Json call = {
      {{"type", "function"}, {"function", {{"name", "get_weather"}, {"arguments", Json::object()}}}}};
  const std::string data = turns(8, [&](int i) {
    return Json{{"tools", tools},
                {"messages",
                 {{{"role", "user"}, {"content", "Weather " + n(i)}},
                  {{"role", "assistant"}, {"content", ""}, {"tool_calls", call}}}}};
  });
  const Verdicts all =
      doctor::check_template_parts(*open_sft({"--dataset_name", data, "--chat_template_path", chatml()}));
  expect_complete(all);
  std::string said;
  for (const base::Verdict& one : all) said += one.what + "\n";
  EXPECT_SAYS(said, "drops the tools of a row");
  EXPECT_SAYS(said, "drops calls of tools");
  const std::string whole =
      file("tools.jinja",
           "{%- if tools %}{{- tools | tojson }}{%- endif %}{%- for m in messages %}{{- '<|im_start|>' + "
           "m.role + '\\n' + (m.content or '') }}{%- if m.tool_calls %}{{- m.tool_calls | tojson }}"
           "{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
           "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}");
  EXPECT_EQ(verdict_of(doctor::check_template_parts(
                           *open_sft({"--dataset_name", data, "--chat_template_path", whole})),
                       "DATA-14")
                .level,
            Level::kOk);
}

constexpr const char* kCutsThinking =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.role == 'assistant' %}{{- m.content.split('</think>')[-1]|trim }}{%- else %}{{- m.content }}"
    "{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
constexpr const char* kCutsEarlierThinking =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.role == 'assistant' and not loop.last %}{{- m.content.split('</think>')[-1]|trim }}"
    "{%- else %}{{- m.content }}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

TEST_F(CheckRows, ATemplateThatDropsReasoning) {
  const auto of = [&](const std::string& source, const std::function<Json(int)>& row) {
    const Verdicts all = doctor::check_template_parts(
        *open_sft({"--dataset_name", turns(8, row), "--chat_template_path", source}));
    expect_complete(all);
    return verdict_of(all, "DATA-14");
  };
  const auto inside = [](int i) { return chat("Hi " + n(i), "<think>\nlong thoughts\n</think>\n\nAhoy"); };
  const auto beside = [](int i) {
    Json row = chat("Hi " + n(i), "Ahoy");
    row["messages"][1]["reasoning_content"] = "long thoughts";
    return row;
  };
  const std::string cuts = file("cuts.jinja", kCutsThinking);
  const auto cut = of(cuts, inside);
  EXPECT_EQ(cut.level, Level::kWarn);
  EXPECT_SAYS(cut.what, "drops the reasoning of every conversation that has it (8 conversations)");
  EXPECT_SAYS(cut.evidence, "turns.jsonl:1: `long thoughts` is not in its rendering");
  EXPECT_SAYS(cut.cause, "cuts an assistant's turn at </think>");
  EXPECT_SAYS(cut.fix, "chat_template_path");
  EXPECT_EQ(of(chatml(), inside).level, Level::kOk);
  // A template that writes the content only: what stands beside it is gone, and would be kept inside.
  const auto key = of(chatml(), beside);
  EXPECT_EQ(key.level, Level::kWarn);
  EXPECT_SAYS(key.cause, "`reasoning_content`");
  EXPECT_SAYS(key.fix, "or write it into the content, as <think>...</think>");
  EXPECT_EQ(of(cuts, beside).fix.find("write it into the content"), std::string::npos);
  const auto half = of(cuts, [&](int i) { return i % 2 == 0 ? inside(i) : chat("Hi", "Ahoy"); });
  EXPECT_SAYS(half.what, "every conversation that has it (4 conversations)");
}

TEST_F(CheckRows, ATemplateThatKeepsTheLastReasoningIsANote) {
  const auto row = [](int i) {
    return Json{{"messages",
                 {{{"role", "user"}, {"content", "Hi " + n(i)}},
                  {{"role", "assistant"}, {"content", "<think>\nfirst thoughts\n</think>\nAhoy"}},
                  {{"role", "user"}, {"content", "And?"}},
                  {{"role", "assistant"}, {"content", "<think>\nlater thoughts\n</think>\nAye"}}}}};
  };
  const Verdicts all =
      doctor::check_template_parts(*open_sft({"--dataset_name", turns(8, row), "--chat_template_path",
                                              file("earlier.jinja", kCutsEarlierThinking)}));
  expect_complete(all);
  const auto found = verdict_of(all, "DATA-14");
  EXPECT_EQ(found.level, Level::kNote);
  EXPECT_SAYS(found.what, "8 of 8 earlier turns with reasoning are trained without it (100 %)");
}

// A template that trims is no template that drops; a name is rarely written.
TEST_F(CheckRows, BlanksAndNamesAreNoLoss) {
  const std::string trims =
      file("trims.jinja",
           "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content|trim "
           "+ '<|im_end|>\\n' }}{%- endfor %}"
           "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}");
  const auto of = [&](const std::string& answer, const Json& name) {
    const auto row = [&](int i) {
      Json one = chat("  Hi " + n(i) + "\n", answer);
      if (!name.is_null()) one["messages"][0]["name"] = name;
      return one;
    };
    const Verdicts all = doctor::check_template_parts(
        *open_sft({"--dataset_name", turns(8, row), "--chat_template_path", trims}));
    expect_complete(all);
    return verdict_of(all, "DATA-14");
  };
  EXPECT_EQ(of("\n\n  <think>\n  a thought \n</think>\n  Ahoy, \n sailor \n", {}).level, Level::kOk);
  EXPECT_EQ(of("", {}).level, Level::kOk);
  const auto named = of("Ahoy", "Long John Silver");
  EXPECT_EQ(named.level, Level::kNote);
  EXPECT_SAYS(named.what, "drops the names of messages in 8 of 8 conversations");
}

TEST_F(CheckRows, PairsThatTheTemplateMadeEqual) {
  const std::string model = changed_model([](Json&, auto) {});
  const base::fs::path settings = base::fs::path(model) / "tokenizer_config.json";
  Json config = base::parse_json(base::read_text(settings), "tokenizer_config.json");
  config["chat_template"] = kCutsThinking;
  base::write_file_atomic(settings, config.dump());
  const auto pair = [](int i, bool differs) {
    const auto says = [&](const std::string& thought, const std::string& answer) {
      return Json::array(
          {{{"role", "assistant"}, {"content", "<think>\n" + thought + "\n</think>\n\n" + answer}}});
    };
    return Json{{"prompt", Json::array({{{"role", "user"}, {"content", "q" + n(i)}}})},
                {"chosen", says("good thoughts", "answer")},
                {"rejected", says("bad thoughts", differs ? "other" : "answer")}};
  };
  const auto open = [&](const std::function<bool(int)>& differs) {
    return open_dpo({"--model_name_or_path", model, "--dataset_name",
                     turns(20, [&](int i) { return pair(i, differs(i)); })});
  };
  const std::string message = user_error([&] { open([](int) { return false; }); });
  EXPECT_SAYS(message, "though the messages differ in the file (");
  EXPECT_SAYS(message, "good thoughts");
  EXPECT_SAYS(message, "the chat template drops what makes them differ");
  const auto run = open([](int i) { return i % 2 == 0; });
  const Verdicts pairs = doctor::check_pairs(*run);
  EXPECT_SAYS(verdict_of(pairs, "PREF-01").cause, "the chat template drops what makes them differ");
  EXPECT_SAYS(verdict_of(pairs, "PREF-01").evidence, "10 of 10 pairs of these differ in the file");
  const Verdicts parts = doctor::check_template_parts(*run);
  EXPECT_SAYS(verdict_of(parts, "DATA-14").what, "drops the reasoning of every conversation");
}

TEST_F(CheckRows, ATemplateWithoutAGenerationPrompt) {
  const std::string data = turns(8, [&](int i) { return chat("Hi " + n(i), "Ahoy"); });
  const auto of = [&](const std::string& path) {
    return verdict_of(
        doctor::check_template_parts(*open_sft({"--dataset_name", data, "--chat_template_path", path})),
        "DATA-14");
  };
  const auto found = of(chatml("", ""));
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_SAYS(found.what, "no generation prompt");
  EXPECT_SAYS(found.evidence, "<|im_start|>assistant");
  // Where the answer follows directly there is nothing to begin it with.
  const std::string direct =
      file("direct.jinja",
           "{%- for m in messages %}{%- if m.role == 'user' %}{{- '[INST] ' + m.content + ' [/INST]' }}"
           "{%- else %}{{- ' ' + m.content + '<|im_end|>' }}{%- endif %}{%- endfor %}");
  EXPECT_EQ(of(direct).level, Level::kOk);
}

}  // namespace check_rows_test
}  // namespace hone::test_tools
