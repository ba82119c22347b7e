#include "train/opening/reward_opening.h"

#include "base/error.h"
#include "train/opening/model_reward.h"
#include "train/opening/open_model.h"

namespace hone::train {

base::Json template_kwargs(const config::Plan& plan) {
  const std::string& kwargs = plan.policy.chat_template_kwargs;
  return kwargs.empty() ? base::Json() : base::parse_json(kwargs, "chat_template_kwargs");
}

rewards::OpenOptions reward_options(const config::Plan& plan) {
  return {.python = plan.policy.python,
          .workers = static_cast<int>(plan.policy.reward_workers),
          .timeout = plan.policy.reward_timeout,
          .open_model = [&plan](const std::string& folder) {
            return open_model_reward(folder, plan.precision, template_kwargs(plan), device(plan));
          }};
}

std::vector<std::vector<std::string>> needed_columns(
    const std::vector<std::string>& words, const std::vector<std::unique_ptr<rewards::Reward>>& rewards) {
  std::vector<std::vector<std::string>> out;
  for (std::size_t i = 0; i < rewards.size(); ++i)
    out.push_back(rewards::required_columns(words[i], *rewards[i]));
  return out;
}

void require_columns(const std::string& option, const std::vector<std::string>& words,
                     const std::vector<std::vector<std::string>>& needed, const PolicyPrompts& prompts) {
  for (std::size_t i = 0; i < needed.size(); ++i) {
    for (const std::string& column : needed[i]) {
      if (prompts.rows.front().columns.contains(column)) continue;
      std::string there;
      for (const auto& [name, value] : prompts.rows.front().columns.items())
        there += (there.empty() ? "" : ", ") + name;
      throw base::UserError(
          {.where = option + " " + words[i],
           .expected = "a column `" + column + "` in the data, which this reward reads (RL-05)",
           .found = there.empty() ? "only the column prompt" : "the columns " + there,
           .cause = "the column has another name, or the rows were written without it",
           .fix = "rename the column, or name yours if the reward has a parameter for it (column=...)"});
    }
  }
}

}  // namespace hone::train
