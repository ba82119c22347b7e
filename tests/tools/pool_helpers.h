// Tools and environments written to a folder, and a pool of them.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/helpers.h"
#include "tools/tool_pool.h"

namespace hone::tools {

using base::expect_says;
using base::Json;
using base::message_of;

// A file tools.py in a folder of its own.
class ToolsFile {
 public:
  explicit ToolsFile(std::string_view text) { base::put(path(), text); }
  std::string path() const { return (folder_ / "tools.py").string(); }
  std::string word(const std::string& names) const { return path() + ":" + names; }
  std::filesystem::path folder() const { return folder_.path(); }

  PoolOptions options(const std::string& tools, const std::string& factory = "", double timeout = 30) const {
    PoolOptions out;
    out.timeout = timeout;
    if (!tools.empty()) out.tools = {word(tools)};
    if (!factory.empty()) out.environments = {{"", word(factory)}};
    return out;
  }
  std::string refusal(const std::string& tools, const std::string& factory = "") const {
    return message_of([&] { ToolPool pool(options(tools, factory)); });
  }

 private:
  base::TempFolder folder_;
};

// All that is under way, by ticket.
inline std::map<std::uint64_t, Done> all_of(ToolPool& pool) {
  std::map<std::uint64_t, Done> out;
  while (pool.under_way() > 0)
    for (Done& done : pool.wait(true)) out.emplace(done.ticket, std::move(done));
  return out;
}

inline Done one(ToolPool& pool, std::uint64_t ticket) {
  std::map<std::uint64_t, Done> all = all_of(pool);
  EXPECT_TRUE(all.contains(ticket));
  return all[ticket];
}

inline Done called(ToolPool& pool, const std::string& name, const Json& arguments,
                   std::int64_t instance = 0) {
  return one(pool, pool.call("", instance, name, arguments));
}

inline std::vector<std::string> names_of(const std::vector<Tool>& tools) {
  std::vector<std::string> out;
  for (const Tool& tool : tools) out.push_back(tool.name);
  return out;
}

}  // namespace hone::tools
