// Models and datasets of Hugging Face's hub, brought into its cache by the user's own Python (huggingface_hub).
#pragma once

#include <string>
#include <vector>

#include "config/hub_names.h"

namespace hone::commands {

// Says what is downloaded, and does it with `python3`, one after the other; progress goes to stderr. Tokens stay in that Python.
// After it config::hub_snapshot finds each. UserError, with what to do by hand, when connections are forbidden
// (HF_HUB_OFFLINE), when Python or its huggingface_hub is missing, and for what the hub answers.
void download_from_hub(const std::vector<config::HubRequest>& requests);

// parse(), and again once what its plan lacks is downloaded.
template <typename Parse>
auto with_downloads(const Parse& parse) {
  auto plan = parse();
  if (plan.downloads.empty()) return plan;
  download_from_hub(plan.downloads);
  return parse();
}

}  // namespace hone::commands
