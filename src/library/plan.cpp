#include "library/plan.h"

#include "base/error.h"
#include "base/strings/suggest.h"
#include "config/hub_names.h"
#include "config/method_of.h"
#include "config/parse.h"

namespace hone::library {

config::Plan plan_of(const std::string& method, const std::vector<std::string>& arguments) {
  const std::optional<config::Method> known = config::find_method(method);
  if (!known) {
    std::string all;
    for (const std::string& name : config::method_names()) all += (all.empty() ? "" : ", ") + name;
    throw base::UserError({.where = "the method of a run",
                           .expected = "one of " + all,
                           .found = "'" + method + "'." + base::did_you_mean(method, config::method_names()),
                           .cause = {},
                           .fix = {}});
  }
  config::Plan plan = config::parse_run(*known, arguments);
  if (!plan.downloads.empty()) {
    const config::HubRequest& request = plan.downloads.front();
    throw base::UserError({.where = "option " + request.option,
                           .expected = request.id + " in Hugging Face's cache",
                           .found = config::not_here(request),
                           .cause = "the library downloads nothing",
                           .fix = "download it first, or name a folder"});
  }
  return plan;
}

}  // namespace hone::library
