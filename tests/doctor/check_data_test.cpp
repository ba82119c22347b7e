// Each class of fault that data, template and embedding show, planted and not planted.
#include "doctor/check_runs.h"

namespace hone::test_tools {
namespace check_data_test {

using base::Level;
using doctor::check_data;
using doctor::Verdicts;

class CheckData : public CheckRuns {
 protected:
  base::Verdict found(const std::string& code, const Words& words) {
    return verdict_of(check_data(*open_sft(words)), code);
  }
};

std::string fixture(const char* name) {
  return (kParity / "sft" / name).string();
}

// ChatML with {% generation %}; `end` is what closes a turn inside the tag, `after` what follows it.
std::string chatml(const std::string& end, const std::string& after) {
  return "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}{% if message.role == "
         "'assistant' %}{% generation %}{{ message.content + '" +
         end + "' }}{% endgeneration %}{{ '" + after +
         "\\n' }}"
         "{% else %}{{ message.content + '" +
         end + after +
         "\\n' }}{% endif %}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
}

TEST_F(CheckData, HealthyRunsHaveNoFault) {
  const std::vector<Words> healthy = {
      {},
      {"--dataset_name", fixture("messages.jsonl"), "--assistant_only_loss", "true", "--packing", "true",
       "--max_length", "128"},
      {"--dataset_name", fixture("messages.jsonl")},
      {"--dataset_name", fixture("prompt_completion.jsonl"), "--max_length", "128"},
  };
  for (const Words& words : healthy) {
    const Verdicts all = check_data(*open_sft(words));
    EXPECT_EQ(failures(all), "");
    expect_complete(all);
    for (const char* code : {"DATA-01", "DATA-03", "DATA-04", "DATA-05", "DATA-07", "DATA-09", "DATA-10"})
      EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code << " " << verdict_of(all, code).what;
  }
  // Some rows of this one are cut, which is worth a warning.
  EXPECT_EQ(failures(check_data(
                *open_sft({"--dataset_name", fixture("prompt_completion.jsonl"), "--max_length", "64"}))),
            "");
  const Verdicts all = check_data(*open_grpo());
  EXPECT_EQ(failures(all), "");
  for (const char* code : {"DATA-04", "DATA-05", "DATA-08", "DATA-09", "DATA-10"})
    EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code;
}

TEST_F(CheckData, RowsWithoutTargetsAreCounted) {
  const std::string prompt(200, 'x');
  std::string text;
  for (int i = 0; i < 20; ++i)
    text +=
        R"({"prompt": "Q: )" + (i < 4 ? prompt : std::string("1 + 1?")) + R"(", "completion": " 2"})" + "\n";
  const std::string data = file("rows.jsonl", text);
  const auto cut = found("DATA-01", {"--dataset_name", data, "--max_length", "60"});
  EXPECT_EQ(cut.level, Level::kWarn) << "16 rows are trained";
  EXPECT_SAYS(cut.what, "4 of 20 rows have nothing to train on");
  EXPECT_SAYS(cut.cause, "max_length");
  EXPECT_EQ(found("DATA-01", {"--dataset_name", data}).level, Level::kOk);
  // Texts without a word are dropped and do no harm.
  const std::string blank =
      file("blank.jsonl", "{\"text\": \"\"}\n{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  EXPECT_NE(found("DATA-01", {"--dataset_name", blank}).level, Level::kFail);
}

TEST_F(CheckData, WhatTruncationTakesIsMeasured) {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += R"({"prompt": "Count:", "completion": ")" +
            std::string(i < 10 ? 400 : 40, static_cast<char>('a' + i % 20)) + "\"}\n";
  const std::string data = file("rows.jsonl", text);
  const auto heavy = found("DATA-02", {"--dataset_name", data, "--max_length", "64"});
  EXPECT_EQ(heavy.level, Level::kWarn) << "most of the targets are there";
  EXPECT_SAYS(heavy.what, "10 of 50 rows are cut at 64 tokens");
  EXPECT_SAYS(heavy.fix, "max_length: ");
  // The length that it proposes is enough.
  const std::string proposed = heavy.fix.substr(12, heavy.fix.find(' ', 12) - 12);
  EXPECT_LE(found("DATA-02", {"--dataset_name", data, "--max_length", proposed}).level, Level::kNote)
      << proposed;
  EXPECT_EQ(found("DATA-02", {"--dataset_name", data}).level, Level::kOk);
  EXPECT_EQ(found("DATA-03", {"--dataset_name", data, "--max_length", "64"}).level, Level::kWarn);
}

TEST_F(CheckData, ACutTextIsStillAText) {
  const std::string data = rows(R"({"text": ")" + std::string(300, 'y') + "\"}", 20);
  const Verdicts all = check_data(*open_sft({"--dataset_name", data, "--max_length", "32"}));
  EXPECT_EQ(failures(all), "");
  EXPECT_EQ(verdict_of(all, "DATA-02").level, Level::kWarn);
  EXPECT_EQ(verdict_of(all, "DATA-03").level, Level::kWarn);
}

TEST_F(CheckData, AnEndThatIsNeverATargetIsFound) {
  const std::string outside = file("outside.jinja", chatml("", "<|im_end|>"));
  const std::string inside = file("inside.jinja", chatml("<|im_end|>", ""));
  const auto with = [&](const std::string& path) {
    return found("DATA-03", {"--dataset_name", fixture("messages.jsonl"), "--assistant_only_loss", "true",
                             "--chat_template_path", path});
  };
  EXPECT_EQ(with(outside).level, Level::kFail);
  EXPECT_SAYS(with(outside).cause, "{% generation %}");
  EXPECT_EQ(with(inside).level, Level::kOk);
  // Turns that nothing closes: the last special token of a row is then the one that opens a turn.
  const std::string open = file("open.jinja", chatml("", ""));
  EXPECT_EQ(
      found("DATA-03", {"--dataset_name", fixture("messages.jsonl"), "--chat_template_path", open}).level,
      Level::kFail);
}

TEST_F(CheckData, ATurnThatEndsInNoStopTokenIsFound) {
  const std::string other = file("other.jinja", chatml("<|endoftext|>", ""));
  const Words words = {"--dataset_name", fixture("messages.jsonl"), "--chat_template_path", other};
  const auto wrong = found("DATA-04", words);
  EXPECT_EQ(wrong.level, Level::kWarn);
  EXPECT_SAYS(wrong.what, "<|endoftext|>");
  ASSERT_EQ(wrong.repair.size(), 1U);
  EXPECT_EQ(wrong.repair[0], std::make_pair(std::string("eos_token"), std::string("<|endoftext|>")));
  Words mended = words;
  mended.insert(mended.end(), {"--eos_token", "<|endoftext|>"});
  EXPECT_EQ(found("DATA-04", mended).level, Level::kNote);  // the model's own files still say another
  const std::string none = file("none.jinja", chatml(" end", ""));
  EXPECT_EQ(
      found("DATA-04", {"--dataset_name", fixture("messages.jsonl"), "--chat_template_path", none}).level,
      Level::kWarn);
}

TEST_F(CheckData, ADoubledBosIsCounted) {
  const std::string twice = rows(R"({"text": "<|bos|>hello"})", 5);
  EXPECT_EQ(found("DATA-05", {"--dataset_name", twice}).level, Level::kWarn);
  const std::string prompts = rows(R"({"prompt": "<|bos|>hello"})", 5);
  EXPECT_EQ(verdict_of(check_data(*open_grpo({"--dataset_name", prompts})), "DATA-05").level, Level::kWarn);
}

TEST_F(CheckData, APromptThatIsCutWithinAWordIsCounted) {
  const std::string data = rows(R"({"prompt": "tokens meet: answ", "completion": "er it"})", 20);
  const auto off = found("DATA-06", {"--dataset_name", data});
  EXPECT_EQ(off.level, Level::kWarn);
  EXPECT_SAYS(off.what, "20 of 20 rows");
  EXPECT_EQ(found("DATA-06", {"--dataset_name", fixture("prompt_completion.jsonl")}).level, Level::kOk);
}

TEST_F(CheckData, ATemplateThatRewritesEarlierTurnsIsFound) {
  const std::string dialogue = rows(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})",
      3);
  const std::string drops =
      file("drops.jinja",
           "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}"
           "{% if message.role == 'assistant' and loop.last %}{{ '<think></think>' }}{% endif %}"
           "{{ message.content + '<|im_end|>\\n' }}{% endfor %}");
  const auto broken = found("DATA-08", {"--dataset_name", dialogue, "--chat_template_path", drops});
  EXPECT_EQ(broken.level, Level::kWarn);
  EXPECT_SAYS(broken.evidence, "3 of 3 conversations");
  EXPECT_EQ(found("DATA-08", {"--dataset_name", dialogue}).level, Level::kOk);
}

TEST_F(CheckData, AnUntrainedTokenIsFoundWhereTheDataUseIt) {
  const std::string model = changed_model([](base::Json&, std::map<std::string, at::Tensor>* tensors) {
    if (tensors != nullptr) tensors->at("model.embed_tokens.weight")[1].zero_();  // <|im_start|>
  });
  const auto used =
      found("DATA-09", {"--model_name_or_path", model, "--dataset_name", fixture("messages.jsonl")});
  EXPECT_EQ(used.level, Level::kFail);
  EXPECT_SAYS(used.evidence, "<|im_start|>");
  EXPECT_EQ(found("DATA-09", {"--model_name_or_path", model}).level, Level::kOk);
}

TEST_F(CheckData, ATrainedTokenThatTheDataLackIsNamed) {
  const auto with = [&](const char* ids) { return found("GRAD-06", {"--trainable_token_indices", ids}); };
  EXPECT_EQ(with("[224, 25]").level, Level::kOk);
  const auto absent = with("[224, 1]");  // <|im_start|>
  EXPECT_EQ(absent.level, Level::kWarn);
  EXPECT_SAYS(absent.what, "1 of 2 tokens of trainable_token_indices is nowhere in the data");
  EXPECT_SAYS(absent.evidence, "<|im_start|>");
  // A row that is zero in the base and trained is no untrained embedding.
  const std::string model = changed_model([](base::Json&, std::map<std::string, at::Tensor>* tensors) {
    if (tensors != nullptr) tensors->at("model.embed_tokens.weight")[1].zero_();
  });
  EXPECT_EQ(found("DATA-09", {"--model_name_or_path", model, "--dataset_name", fixture("messages.jsonl"),
                              "--trainable_token_indices", "1"})
                .level,
            Level::kOk);
}

TEST_F(CheckData, AFileThatHoldsAnotherHeadThanTheTiedOneIsNamed) {
  const std::string model = changed_model([](base::Json&, std::map<std::string, at::Tensor>* tensors) {
    if (tensors != nullptr) (*tensors)["lm_head.weight"] = tensors->at("model.embed_tokens.weight") * 2;
  });
  EXPECT_EQ(found("CKPT-03", {"--model_name_or_path", model}).level, Level::kFail);
  EXPECT_EQ(found("CKPT-03", {}).code, "");
}

TEST_F(CheckData, PairsAreLookedAtToo) {
  const Verdicts healthy = check_data(*open_dpo());
  EXPECT_EQ(failures(healthy), "");
  for (const char* code : {"DATA-01", "DATA-02", "DATA-09", "DATA-10"})
    EXPECT_EQ(verdict_of(healthy, code).level, Level::kOk) << code;
  // The fixture holds a pair of equal sides.
  EXPECT_LE(verdict_of(healthy, "PREF-01").level, Level::kWarn);
  EXPECT_EQ(failures(doctor::check_plan(*open_dpo())), "");
  EXPECT_EQ(failures(doctor::probe_budget(*open_dpo())), "");

  std::string text;
  const std::string prompt(100, 'x');
  for (int i = 0; i < 10; ++i)
    text += R"({"prompt": ")" + (i < 3 ? prompt : std::string("1 + 1")) +
            R"(", "chosen": " 2", "rejected": ")" + (i < 5 ? " 3" : " 2") + "\"}\n";
  const std::string data = file("pairs.jsonl", text);
  const Verdicts all = check_data(*open_dpo({"--dataset_name", data, "--max_length", "30"}));
  EXPECT_EQ(verdict_of(all, "DATA-01").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(all, "DATA-01").what, "3 of 10 pairs");
  EXPECT_EQ(verdict_of(all, "PREF-01").level, Level::kWarn);  // 5 of the 7 that are left
  expect_complete(all);
}

// What a conversation's template and its end are to SFT they are to pairs.
TEST_F(CheckData, PairsOfConversations) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    text +=
        R"({"prompt": [{"role": "user", "content": "1 + 1"}], "chosen": [{"role": "assistant", "content": "2"}],)"
        R"( "rejected": [{"role": "assistant", "content": "3, or perhaps four"}]})";
    text += "\n";
  }
  const std::string data = file("chat_pairs.jsonl", text);
  const auto with = [&](const std::string& chat_template, const Words& more = {}) {
    const fs::path model = changed_model([](base::Json&, std::map<std::string, at::Tensor>*) {});
    const fs::path config = model / "tokenizer_config.json";
    base::Json json = base::parse_json(base::read_text(config), config.string());
    json["chat_template"] = chat_template;
    write_json(config, json);
    Words words = {"--model_name_or_path", model.string(), "--dataset_name", data};
    words.insert(words.end(), more.begin(), more.end());
    return open_dpo(words);
  };
  const std::string right = chatml("<|im_end|>", "");
  const auto run = with(right);
  const Verdicts healthy = check_data(*run);
  for (const char* code : {"DATA-03", "DATA-04", "DATA-05", "DATA-08"})
    EXPECT_EQ(verdict_of(healthy, code).level, Level::kOk) << code;
  EXPECT_SAYS(verdict_of(healthy, "DATA-03").what, "10 of 10 pairs");
  const Verdicts other = check_data(*with(chatml("<|endoftext|>", "")));
  EXPECT_EQ(verdict_of(other, "DATA-04").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(other, "DATA-04").fix, "<|endoftext|>, in the model's tokenizer_config.json");
  EXPECT_EQ(verdict_of(other, "DATA-03").level, Level::kOk);  // it ends, at another token
  EXPECT_EQ(verdict_of(check_data(*with(chatml("", ""))), "DATA-03").level, Level::kNote);
  const std::int64_t room = std::get<train::PreferenceStartFacts>(run->start.method).data.longest_prompt + 1;
  const Verdicts cut = check_data(*with(right, {"--max_length", std::to_string(room)}));
  EXPECT_EQ(verdict_of(cut, "DATA-03").level, Level::kWarn);
  EXPECT_SAYS(verdict_of(cut, "DATA-03").cause, "truncation");
}

TEST_F(CheckData, ADoubledBosOfPairsIsCounted) {
  const std::string twice = rows(R"({"prompt": "<|bos|>hello", "chosen": " you", "rejected": " me"})", 5);
  EXPECT_EQ(verdict_of(check_data(*open_dpo({"--dataset_name", twice})), "DATA-05").level, Level::kWarn);
}

}  // namespace check_data_test
}  // namespace hone::test_tools
