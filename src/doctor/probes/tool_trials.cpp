#include "doctor/probes/tool_trials.h"

#include <algorithm>

#include "base/error.h"
#include "base/stopwatch.h"
#include "doctor/probes/drawn_rows.h"
#include "train/opening/tool_opening.h"

namespace hone::doctor {

namespace {

using base::Json;

constexpr std::size_t kResetRows = 2;      // of each environment
constexpr std::size_t kRowsLookedAt = 64;  // of them those are taken

Json smallest_value(const Json& of) {
  if (!of.is_object()) return "1";
  if (of.contains("enum") && of["enum"].is_array() && !of["enum"].empty()) return of["enum"].front();
  for (const char* several : {"anyOf", "oneOf"}) {
    if (of.contains(several) && of[several].is_array() && !of[several].empty())
      return smallest_value(of[several].front());
  }
  Json type = of.value("type", Json("string"));
  if (type.is_array()) type = type.empty() ? Json("string") : type.front();
  if (type == "integer") return 1;
  if (type == "number") return 1.0;
  if (type == "boolean") return true;
  if (type == "null") return nullptr;
  if (type == "object") return Json::object();
  if (type != "array") return "1";
  Json out = Json::array();
  if (of.contains("prefixItems") && of["prefixItems"].is_array()) {
    for (const Json& one : of["prefixItems"]) out.push_back(smallest_value(one));
  } else {
    out.push_back(of.contains("items") ? smallest_value(of["items"]) : Json("1"));
  }
  return out;
}

tools::Done result_of(tools::ToolPool& pool, std::uint64_t ticket) {
  for (;;) {
    for (tools::Done& done : pool.wait(/*block=*/true)) {
      if (done.ticket == ticket) return std::move(done);
    }
    base::require(pool.under_way() > 0, "doctor::try_tools", "the result of a call");
  }
}

class Trials {
 public:
  Trials(const train::RunView& run, double patience)
      : run_(run), use_(own_tools(run)), patience_(patience), start_(base::Clock::now()) {}

  ToolTrials run() {
    std::vector<std::string> names = use_.environments;
    if (names.empty()) names.emplace_back();
    for (const std::string& name : names) {
      const std::vector<const data::PromptRow*> rows = rows_of(name);
      if (!use_.environments.empty()) {
        if (rows.empty()) continue;  // no row is for it
        for (const data::PromptRow* const row : rows) out_.environments.push_back(reset(name, *row));
        if (!out_.environments.back().error.empty()) continue;
      }
      for (const tools::Tool& tool : use_.pool->tools(name)) call(name, tool, rows);
    }
    return std::move(out_);
  }

 private:
  bool late() {
    out_.late = out_.late || base::seconds_since(start_) > patience_;
    return out_.late;
  }

  std::vector<const data::PromptRow*> rows_of(const std::string& environment) const {
    const train::PolicyPrompts& prompts = run_.sampled().train_prompts;
    std::vector<const data::PromptRow*> out;
    for (const std::size_t place : draw_rows(prompts, kRowsLookedAt)) {
      const data::PromptRow& row = prompts.rows[place];
      if (out.size() < kResetRows && (use_.environments.empty() || use_.environment_of(row) == environment))
        out.push_back(&row);
    }
    return out;
  }

  Json prompt_after_reset(const data::PromptRow& row, std::int64_t samples) {
    rollout::GenerateOptions options;  // whose seed is that of every trial
    options.samples = samples;
    return train::begin_dialogues({&row}, options, run_.text->tokenizer, use_).front().prompt;
  }

  // Of two instances, as a group has them, and once more.
  TriedEnvironment reset(const std::string& name, const data::PromptRow& row) {
    TriedEnvironment out{.name = name, .class_name = use_.pool->class_name(name), .where = row.where};
    try {
      const auto start = base::Clock::now();
      const Json first = prompt_after_reset(row, 2);
      out.seconds = base::seconds_since(start) / 2;
      if (late()) return out;
      const Json second = prompt_after_reset(row, 2);
      out.differs = first != second;
      if (out.differs) {
        out.first = base::dump_json(first.back());
        out.second = base::dump_json(second.back());
      }
    } catch (const train::WorldsDiffer& error) {
      out.error = error.text().found;
      out.worlds_differ = true;
    } catch (const base::UserError& error) {
      out.error = error.text().found;
    }
    return out;
  }

  tools::Done call_once(const TriedTool& tool, const std::vector<const data::PromptRow*>& rows) {
    const bool acts = !use_.environments.empty();
    if (acts) prompt_after_reset(*rows.front(), 1);
    return result_of(*use_.pool, use_.pool->call(tool.environment, acts ? 0 : -1, tool.name, tool.arguments));
  }

  void call(const std::string& environment, const tools::Tool& tool,
            const std::vector<const data::PromptRow*>& rows) {
    const bool known = std::any_of(out_.tools.begin(), out_.tools.end(), [&](const TriedTool& one) {
      return one.name == tool.name && one.environment == environment;
    });
    if (known || late()) return;
    TriedTool out{
        .name = tool.name, .environment = environment, .arguments = smallest_arguments(tool.schema)};
    out.first = call_once(out, rows);
    if (!late()) {
      out.second = call_once(out, rows);
      out.twice = true;
      // An error's text may well name an address or a time.
      out.differs =
          out.first.failed != out.second.failed || (!out.first.failed && out.first.text != out.second.text);
    }
    out_.tools.push_back(std::move(out));
  }

  const train::RunView run_;
  train::ToolUse use_;
  const double patience_;
  const base::Clock::time_point start_;
  ToolTrials out_;
};

}  // namespace

Json smallest_arguments(const Json& schema) {
  const Json& function = schema.contains("function") ? schema["function"] : schema;
  Json out = Json::object();
  const Json parameters = function.value("parameters", Json::object());
  const Json properties = parameters.value("properties", Json::object());
  for (const Json& name : parameters.value("required", Json::array())) {
    if (name.is_string())
      out[name.get<std::string>()] = smallest_value(properties.value(name.get<std::string>(), Json()));
  }
  return out;
}

train::ToolUse own_tools(const train::RunView& run) {
  train::ToolUse out = *run.sampled().tools;
  out.pool = train::open_tool_pool(run.plan);
  return out;
}

ToolTrials try_tools(const train::RunView& run, double patience) {
  return Trials(run, patience).run();
}

bool calls_the_caller(const config::Plan& plan) {
  const auto of_caller = [](const std::string& word) {
    return word.find("hone.caller:") != std::string::npos;
  };
  return std::any_of(plan.acting.tools.begin(), plan.acting.tools.end(), of_caller) ||
         std::any_of(plan.acting.environment.begin(), plan.acting.environment.end(), of_caller);
}

}  // namespace hone::doctor
