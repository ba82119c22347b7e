// Models and datasets of Hugging Face's hub, brought into its cache by the user's own Python (huggingface_hub).
#pragma once

#include <string>
#include <vector>

#include "config/hub_names.h"

namespace hone::commands {

// Says what is downloaded, and does it with `python` (empty: base/process/active_python.h), one after the other; progress goes to stderr. Tokens stay in that Python.
// After it config::hub_snapshot finds each. Of a data set only data files and README.md come: no pickle, no script.
// UserError, with what to do by hand, when connections are forbidden (HF_HUB_OFFLINE), when Python or its huggingface_hub is
// missing, and for what the hub answers.
void download_from_hub(const std::vector<config::HubRequest>& requests, const std::string& python = "");

// UserError for what a download did not bring: a split or a file that the repository does not have.
void require_downloaded(const std::vector<config::HubRequest>& still_missing);

// The requests of a command's plan, its own or those of the server that it starts.
template <typename Plan>
const std::vector<config::HubRequest>& downloads_of(const Plan& plan) {
  if constexpr (requires { plan.serve.downloads; }) {
    return plan.serve.downloads;
  } else {
    return plan.downloads;
  }
}

// parse(), and again once what its plan lacks is downloaded.
template <typename Parse>
auto with_downloads(const Parse& parse) {
  auto plan = parse();
  if (downloads_of(plan).empty()) return plan;
  if constexpr (requires { plan.policy.python; }) {
    download_from_hub(downloads_of(plan), plan.policy.python);
  } else if constexpr (requires { plan.serve.downloads; }) {
    download_from_hub(downloads_of(plan), plan.python);
  } else {
    download_from_hub(downloads_of(plan));
  }
  plan = parse();
  require_downloaded(downloads_of(plan));
  return plan;
}

}  // namespace hone::commands
