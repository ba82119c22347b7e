// DATA-04, DATA-08, DATA-14 and DATA-15 on the real templates of TRL and llama.cpp: nothing to warn of in a
// simple conversation, and reasoning that is missing is told where it is missing. Fetched by
// tests/parity/fetch_tokenizers; without them the test is skipped.
#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"

namespace hone::test_tools {
namespace real_templates_quiet_test {

using base::Json;
using base::Level;
using doctor::Verdicts;

const fs::path kTemplates = fs::path(HONE_SOURCE_DIR) / "third_party";

std::vector<fs::path> real_templates() {
  std::vector<fs::path> out;
  for (const char* folder : {"trl-templates", "llama-cpp/templates"}) {
    if (!fs::exists(kTemplates / folder)) continue;
    for (const auto& entry : fs::directory_iterator(kTemplates / folder)) {
      if (entry.path().extension() == ".jinja") out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Those of models that see pictures read a list of parts, and pass over a text: that is told, and right.
bool takes_texts(const train::OpenedRun& run, const Json& messages) {
  const std::string text =
      run.text->chat_template
          ->render({.messages = messages, .tools = {}, .template_kwargs = {}, .add_generation_prompt = false})
          .text;
  return text.find("It is Monday.") != std::string::npos;
}

class RealTemplatesQuiet : public CheckRuns {
 protected:
  // One run whose template is another each time: opening a run takes longer than all checks.
  std::unique_ptr<train::OpenedRun> opened(const Json& messages) {
    std::string text;
    for (int i = 0; i < 4; ++i) text += Json{{"messages", messages}}.dump() + "\n";
    const std::string plain = file("plain.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
    return open_sft({"--dataset_name", file("rows.jsonl", text), "--chat_template_path", plain});
  }

  // False: the template does not take these rows.
  static bool put_template(train::OpenedRun& run, const fs::path& path, const Json& messages) {
    try {
      run.text->chat_template = std::make_unique<text::ChatTemplate>(
          base::read_text(path), run.text->tokenizer.special(), path.string());
      return takes_texts(run, messages);
    } catch (const base::UserError&) {
      return false;
    }
  }
};

TEST_F(RealTemplatesQuiet, SimpleConversationsAreHealthy) {
  const std::vector<fs::path> all = real_templates();
  if (all.empty()) GTEST_SKIP() << "no templates; tests/parity/fetch_tokenizers fetches them";
  const Json messages = Json::array({{{"role", "user"}, {"content", "Which day is it?"}},
                                     {{"role", "assistant"}, {"content", "It is Monday."}}});
  const auto run = opened(messages);
  std::size_t looked = 0;
  for (const fs::path& path : all) {
    if (!put_template(*run, path, messages)) continue;
    looked += 1;
    for (const base::Verdict& one : doctor::check_template_parts(*run)) {
      EXPECT_LE(one.level, Level::kNote) << path << ": " << one.what << "; " << one.evidence;
    }
  }
  EXPECT_GE(looked, 80U) << "of " << all.size();
}

TEST_F(RealTemplatesQuiet, ReasoningIsToldWhereItIsMissing) {
  const std::vector<fs::path> all = real_templates();
  if (all.empty()) GTEST_SKIP() << "no templates; tests/parity/fetch_tokenizers fetches them";
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "Which day is it?"}},
                   {{"role", "assistant"},
                    {"content", "<think>\nYesterday was a Sunday, so\n</think>\n\nIt is Monday."}}});
  const auto run = opened(messages);
  std::size_t told = 0, quiet = 0;
  for (const fs::path& path : all) {
    if (!put_template(*run, path, messages)) continue;
    const std::string text =
        run->text->chat_template->render({.messages = messages, .tools = {}, .template_kwargs = {}}).text;
    const bool missing = text.find("Yesterday was a Sunday") == std::string::npos;
    const base::Verdict found = verdict_of(doctor::check_template_parts(*run), "DATA-14");
    EXPECT_EQ(found.level == Level::kWarn, missing) << path << ": " << found.what << "\n" << text;
    if (missing) {
      EXPECT_SAYS(found.what, "drops the reasoning of every conversation");
    }
    (missing ? told : quiet) += 1;
  }
  EXPECT_GE(told, 1U);
  EXPECT_GE(quiet, 60U);
}

}  // namespace real_templates_quiet_test
}  // namespace hone::test_tools
