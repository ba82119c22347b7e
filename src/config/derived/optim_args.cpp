#include "config/derived/optim_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/strings/ascii.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/reading/keyword_values.h"

namespace hone::config {
namespace {

using learn::OptimizerArguments;
using learn::OptimizerKind;

constexpr const char* kOptimArgs = "optim_args";

// The keys that transformers' trainer_optimizer.py reads for each; it never reads weight_decay in effect, since
// the option of that name is set for every parameter.
constexpr std::array<Keywords<OptimizerKind>, 3> kOptimizerKeywords = {
    {{OptimizerKind::kSgd, "momentum dampening nesterov weight_decay"},
     {OptimizerKind::kAdagrad, "lr_decay eps weight_decay"},
     {OptimizerKind::kRmsprop, "momentum alpha eps centered weight_decay"}}};

struct OptimizerValue {
  const Settings& settings;
  const std::string& key;
  const std::string& text;

  double number() const {
    const std::optional<double> out = number_from(text);
    if (!out || !std::isfinite(*out) || *out < 0) {
      conflict(settings, kOptimArgs, fmt::format("a number at least 0 for {} in optim_args", key),
               fmt::format("'{}'", base::cut_text(text, 200)));
    }
    return *out;
  }
  bool flag() const {  // everything else is false in transformers
    const std::string word = base::lower_ascii(text);
    if (word == "true" || word == "1" || word == "yes") return true;
    if (word == "false" || word == "0" || word == "no") return false;
    conflict(settings, kOptimArgs, fmt::format("true or false for {} in optim_args", key),
             fmt::format("'{}'", base::cut_text(text, 200)));
  }
};

using SetArgument = std::function<void(const OptimizerValue&, OptimizerArguments&)>;
const std::map<std::string, SetArgument>& argument_setters() {
  using V = OptimizerValue;
  using A = OptimizerArguments;
  static const std::map<std::string, SetArgument> all = {
      {"momentum", [](const V& v, A& a) { a.momentum = v.number(); }},
      {"dampening", [](const V& v, A& a) { a.dampening = v.number(); }},
      {"nesterov", [](const V& v, A& a) { a.nesterov = v.flag(); }},
      {"alpha", [](const V& v, A& a) { a.alpha = v.number(); }},
      {"centered", [](const V& v, A& a) { a.centered = v.flag(); }},
      {"lr_decay", [](const V& v, A& a) { a.lr_decay = v.number(); }},
      {"eps", [](const V& v, A& a) { a.eps = v.number(); }},
      {"weight_decay", [](const V& v, A&) { v.number(); }}};
  return all;
}

// "a=1, b = 2" -> pairs, as _parse_optim_args: without spaces, one '=' each.
std::vector<std::pair<std::string, std::string>> pairs_of(const Settings& settings) {
  std::string text = settings.text(kOptimArgs);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  std::vector<std::pair<std::string, std::string>> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    const std::size_t equals = piece.find('=');
    if (equals == std::string::npos || equals == 0 || piece.find('=', equals + 1) != std::string::npos) {
      conflict(settings, kOptimArgs, "optim_args as key=value, separated by commas",
               fmt::format("'{}'", base::cut_text(piece, 200)), "",
               "optim_args: \"momentum=0.9,nesterov=True\"");
    }
    out.emplace_back(piece.substr(0, equals), piece.substr(equals + 1));
    begin = end + 1;
  }
  return out;
}

void note_unread(const Settings& settings, const std::string& key, const std::vector<std::string>& known,
                 std::vector<std::string>& notes) {
  const std::string optimizer = settings.text("optim"), near = base::did_you_mean(key, known);
  if (!near.empty()) {
    conflict(settings, kOptimArgs, fmt::format("keys of optim {} in optim_args", optimizer),
             fmt::format("unknown key '{}'.{}", base::cut_text(key, 200), near), "",
             fmt::format("{} has {}", optimizer, fmt::join(known, ", ")));
  }
  notes.push_back(fmt::format("optim_args: {} is not read with optim {}, in TRL either",
                              base::cut_text(key, 200), optimizer));
}

// adam_beta1 and others, where there is no Adam.
void note_idle_adam(const OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes) {
  using Kind = OptimizerKind;
  const bool adam = plan.optim == Kind::kAdamW || plan.optim == Kind::kAdamW8bit;
  const bool lion = plan.optim == Kind::kLion || plan.optim == Kind::kLion8bit;
  for (const char* name : {"adam_beta1", "adam_beta2", "adam_epsilon"}) {
    const bool reads = adam || (lion && std::string_view(name) != "adam_epsilon");
    if (!reads && settings.changed(name))
      notes.push_back(fmt::format("{}: not used by optim {}", name, settings.text("optim")));
  }
}

}  // namespace

void read_optim_args(OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes) {
  OptimizerArguments& arguments = plan.optim_args;
  if (plan.optim == OptimizerKind::kAdagrad) arguments.eps = 1e-10;
  const std::vector<std::string> known = keywords_of(kOptimizerKeywords, plan.optim);
  for (const auto& [key, text] : pairs_of(settings)) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      note_unread(settings, key, known, notes);
      continue;
    }
    argument_setters().at(key)({settings, key, text}, arguments);
    if (key == "weight_decay") {
      notes.push_back(
          "optim_args: weight_decay has no effect, in transformers either: the option weight_decay is used");
    }
  }
  if (arguments.nesterov && (arguments.momentum == 0 || arguments.dampening != 0)) {
    conflict(settings, kOptimArgs, "momentum and no dampening with nesterov", settings.text(kOptimArgs),
             "Nesterov's form looks ahead along the momentum", "optim_args: \"momentum=0.9,nesterov=True\"");
  }
  note_idle_adam(plan, settings, notes);
  const std::string optimizer = settings.text("optim");
  if (optimizer.starts_with("paged_")) {
    notes.push_back(
        fmt::format("optim: {}: nothing is paged, since the state of the optimizer is in the "
                    "memory of the CPU already",
                    optimizer));
  }
}

}  // namespace hone::config
