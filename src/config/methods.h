// The training methods as rows: the names of their options and the rules that they add. To add one: a row in
// methods.cpp, its name in the rows of its options (options/options_*.cpp), and its rules.
#pragma once

#include <string_view>

#include "config/method_traits.h"
#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

struct MethodRow {
  Method method;
  std::string_view word;       // the command
  std::string_view config;     // TRL's class of its options
  std::string_view script;     // the class of its script, if it has its own
  void (*resolve)(Settings&);  // resolves values that depend on several options; UserError
  // completes a filled plan: derived fields, checks, notes; UserError
  void (*finish)(Plan&, const Settings&);
  MethodTraits traits = {};
};
const MethodRow& method_row(Method method);

// The rules, in policy_plan.cpp (grpo and rloo) and the files of the other methods.
void resolve_sft(Settings& settings);
void finish_sft(Plan& plan, const Settings& settings);
void resolve_policy(Settings& settings);
void finish_policy(Plan& plan, const Settings& settings);
void resolve_preference(Settings& settings);
void finish_preference(Plan& plan, const Settings& settings);
void resolve_online_dpo(Settings& settings);
void finish_online_dpo(Plan& plan, const Settings& settings);
void resolve_reward_model(Settings& settings);
void finish_reward_model(Plan& plan, const Settings& settings);
void finish_kto(Plan& plan, const Settings& settings);
void resolve_cpo(Settings& settings);
void finish_cpo(Plan& plan, const Settings& settings);
void resolve_orpo(Settings& settings);
void finish_distill(Plan& plan, const Settings& settings);

}  // namespace hone::config
