#include "rewards/open_reward.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "rewards/math/accuracy_reward.h"
#include "rewards/open_r1/open_r1_rewards.h"
#include "rewards/pattern/native_rewards.h"
#include "rewards/python/python_reward.h"

namespace hone::rewards {

namespace {

namespace fs = std::filesystem;

const std::map<std::string, BuiltInReward>& built_in() {
  static const std::map<std::string, BuiltInReward> table = [] {
    std::map<std::string, BuiltInReward> out;
    for (const auto rows : {native_rewards(), math_rewards(), open_r1_rewards()}) {
      for (const BuiltInReward& row : rows) out.emplace(row.name, row);
    }
    return out;
  }();
  return table;
}

enum class Kind { kBuiltIn, kTrl, kPython, kModel };

std::string parameter(const RewardSpec& word, const std::string& key, const std::string& or_else) {
  for (const auto& [name, value] : word.parameters)
    if (name == key) return value;
  return or_else;
}

[[noreturn]] void unknown(const std::string& word, const std::string& name) {
  std::vector<std::string> names;
  std::string all;
  for (const auto& [one, what] : built_in()) {
    names.push_back(one);
    all += (all.empty() ? "" : ", ") + one;
  }
  throw base::UserError({.where = "reward_funcs",
                         .expected = "a reward: " + all +
                                     "; path/to/file.py:function, package.module.function, http://host/path, "
                                     "or the folder of a sequence-classification model",
                         .found = word + "." + base::did_you_mean(name, names)});
}

[[noreturn]] void no_folder(const std::string& word) {
  const bool file = word.ends_with(".py");
  std::error_code error;
  const bool there = fs::exists(word, error);
  throw base::UserError({.where = "reward_funcs",
                         .expected = file ? "file.py:function" : "a folder with config.json",
                         .found = word + (file || !there ? "" : ", which has none"),
                         .cause = file ? "the function's name is missing" : "",
                         .fix = file ? "write " + word + ":NAME" : ""});
}

Kind kind_of(const std::string& word) {
  if (word.starts_with("http://") || word.starts_with("https://")) return Kind::kPython;
  const std::string name = word.substr(0, word.find('('));
  if (name.find(".py:") != std::string::npos) return Kind::kPython;
  std::error_code error;
  for (const char* file : {"config.json", "adapter_config.json"}) {  // a model, or the adapter of one
    if (fs::exists(fs::path(word) / file, error)) return Kind::kModel;
  }
  if (word.find('(') != std::string::npos || built_in().contains(word)) {
    const RewardSpec parsed = parse_reward_spec(word);
    const auto found = built_in().find(parsed.name);
    if (found == built_in().end()) unknown(word, parsed.name);
    const bool trl = !found->second.python.empty() && parameter(parsed, "engine", "native") == "math_verify";
    return trl ? Kind::kTrl : Kind::kBuiltIn;
  }
  if (word.empty()) unknown("an empty word", "");
  if (word.find('/') != std::string::npos || word.ends_with(".py") || fs::is_directory(word, error))
    no_folder(word);
  if (word.find('.') != std::string::npos) return Kind::kPython;
  unknown(word, word);
}

// TRL's function on data that call the gold otherwise, or whose completions are text.
class TrlReward : public Reward {
 public:
  TrlReward(std::unique_ptr<Reward> inner, std::string name, std::string column)
      : inner_(std::move(inner)), name_(std::move(name)), column_(std::move(column)) {}

  const std::string& name() const override { return name_; }
  int parallel_calls() const override { return inner_->parallel_calls(); }
  void reset() override { inner_->reset(); }
  void give_up() override { inner_->give_up(); }
  Scores score(const Request& request) override {
    Request out = request;
    base::Json gold_answers = base::Json::array();
    for (const auto& gold : column_texts(request, column_, name_))
      gold_answers.push_back(!gold ? std::string() : column_ == "solution" ? *gold : after_hashes(*gold));
    out.columns["solution"] = std::move(gold_answers);
    for (base::Json& one : out.completions)
      if (one.is_string()) one = base::Json::array({{{"role", "assistant"}, {"content", one}}});
    return inner_->score(out);
  }

 private:
  std::unique_ptr<Reward> inner_;
  std::string name_;
  std::string column_;
};

std::string python_word(const std::string& word, Kind kind) {
  return kind == Kind::kTrl ? std::string(built_in().at(parse_reward_spec(word).name).python) : word;
}

std::unique_ptr<Reward> open_trl(const std::string& word, std::unique_ptr<Reward> inner) {
  const RewardSpec parsed = parse_reward_spec(word);
  const BuiltInReward& entry = built_in().at(parsed.name);
  if (parameter(parsed, "lenient", "") == "true" ||
      parameter(parsed, "delimiter", "</think>") != "</think>" ||
      parameter(parsed, "reasoning_delimiters", "</think>") != "</think>") {
    throw base::UserError({.where = "reward_funcs " + parsed.name,
                           .expected = "neither lenient nor delimiter beside engine=math_verify",
                           .found = word});
  }
  const std::string name = entry.make(Parameters(parsed))->name();  // checks the parameters
  return std::make_unique<TrlReward>(std::move(inner), name,
                                     parameter(parsed, "column", std::string(entry.column)));
}

// Of a word that is no function of the user's.
std::vector<std::string> columns_of_spec(const std::string& word) {
  if (kind_of(word) == Kind::kModel) return {};
  const RewardSpec parsed = parse_reward_spec(word);
  const BuiltInReward& row = built_in().at(parsed.name);
  if (!row.instead.empty() && Parameters(parsed).has(std::string(row.instead))) return {};
  const std::string column = parameter(parsed, "column", std::string(row.column));
  return column.empty() ? std::vector<std::string>() : std::vector<std::string>{column};
}

}  // namespace

std::vector<std::unique_ptr<Reward>> open_rewards(const std::vector<std::string>& words,
                                                  const OpenOptions& options) {
  std::vector<std::unique_ptr<Reward>> out(words.size());
  std::vector<Kind> kinds;
  std::vector<std::string> python;
  for (const std::string& word : words) {
    kinds.push_back(kind_of(word));
    if (kinds.back() == Kind::kPython || kinds.back() == Kind::kTrl)
      python.push_back(python_word(word, kinds.back()));
  }
  for (std::size_t i = 0; i < words.size();
       ++i) {  // what is wrong with a word is said before a worker starts
    if (kinds[i] == Kind::kBuiltIn) {
      const RewardSpec parsed = parse_reward_spec(words[i]);
      const BuiltInReward& row = built_in().at(parsed.name);
      out[i] = row.open != nullptr ? row.open(Parameters(parsed), options) : row.make(Parameters(parsed));
    } else if (kinds[i] == Kind::kModel) {
      if (!options.open_model) {
        throw base::UserError(
            {.where = "reward_funcs", .expected = "only rewards that need no model here", .found = words[i]});
      }
    }
  }
  if (!python.empty()) {  // one pool of workers for all
    auto opened = open_python_rewards(python, options);
    auto next = opened.begin();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (kinds[i] == Kind::kPython) out[i] = std::move(*next++);
      if (kinds[i] == Kind::kTrl) out[i] = open_trl(words[i], std::move(*next++));
    }
  }
  for (std::size_t i = 0; i < words.size(); ++i)
    if (kinds[i] == Kind::kModel) out[i] = options.open_model(words[i]);
  return out;
}

bool is_user_code(const std::string& word) {
  return kind_of(word) == Kind::kPython;
}

bool is_model(const std::string& word) {
  return kind_of(word) == Kind::kModel;
}

std::vector<std::string> required_columns(const std::string& word, const OpenOptions& options) {
  return kind_of(word) == Kind::kPython ? python_required_columns(word, options) : columns_of_spec(word);
}

std::vector<std::string> required_columns(const std::string& word, const Reward& opened) {
  return kind_of(word) == Kind::kPython ? opened.required_columns() : columns_of_spec(word);
}

}  // namespace hone::rewards
