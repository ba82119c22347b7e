#include "tools/worker/host_program.h"

#include <cmath>
#include <utility>

#include "python/frames.h"
#include "tools/worker/worker_text.h"

namespace hone::tools {

using base::Json;

namespace {

// The package's own texts, for systems where hone is no Python package.
std::string built_in() {
  const Json texts{{"hone.tools", kToolsPython},
                   {"hone.tools._calculator", kCalculatorPython},
                   {"hone.tools._openenv", kOpenEnvPython},
                   {"hone.tools._python", kPythonPython},
                   {"hone.tools._sandbox", kSandboxPython},
                   {"hone.tools._sqlite", kSqlitePython}};
  return "\nBUILT_IN = " + base::dump_json(texts) + "\n";
}

const Json& need(const Json& object, const char* name) {
  return python::reply_field(object, name, kToolHost);
}

std::string text_in(const Json& object, const char* name) {
  const Json& value = need(object, name);
  if (!value.is_string()) python::broken_reply(std::string("field '") + name + "' is no text", kToolHost);
  return value.get<std::string>();
}

bool flag_in(const Json& object, const char* name) {
  const Json& value = need(object, name);
  if (!value.is_boolean()) python::broken_reply(std::string("field '") + name + "' is no boolean", kToolHost);
  return value.get<bool>();
}

double number_in(const Json& object, const char* name) {
  const Json& value = need(object, name);
  if (!value.is_number()) python::broken_reply(std::string("field '") + name + "' is no number", kToolHost);
  const auto number = value.get<double>();
  if (!std::isfinite(number))
    python::broken_reply(std::string("field '") + name + "' is not finite", kToolHost);
  return number;
}

const Json& list_in(const Json& object, const char* name) {
  const Json& value = need(object, name);
  if (!value.is_array()) python::broken_reply(std::string("field '") + name + "' is no list", kToolHost);
  return value;
}

base::ErrorText fault_in(const Json& fault) {
  return {.where = {},
          .expected = text_in(fault, "expected"),
          .found = text_in(fault, "found"),
          .cause = text_in(fault, "cause"),
          .fix = text_in(fault, "fix")};
}

std::vector<Tool> tools_in(const Json& list) {
  std::vector<Tool> out;
  for (const Json& one : list)
    out.push_back({text_in(one, "name"), need(one, "schema"), flag_in(one, "is_async")});
  return out;
}

std::string text_or_empty(const Json& object, const char* name) {
  return object.contains(name) && object[name].is_string() ? object[name].get<std::string>() : std::string();
}

}  // namespace

const python::Program& host_program() {
  static const python::Program program = {.who = kToolHost,
                                          .what_for = "to run tools",
                                          .text = std::string(python::worker_base()) + built_in() +
                                                  std::string(kForkPython) + std::string(kSchemasPython) +
                                                  std::string(kLoadingPython) + std::string(kHostPython) +
                                                  std::string(kOwnersPython)};
  return program;
}

Loaded parse_loaded(std::string_view frame) {
  const Json reply = python::parse_reply(frame, kToolHost);
  Loaded out;
  if (reply.is_object() && reply.contains("fault")) {
    const Json& fault = reply["fault"];
    out.fault = fault_in(fault);
    out.word = text_or_empty(fault, "word");
    out.at = text_or_empty(fault, "at");
    return out;
  }
  out.tools = tools_in(list_in(reply, "tools"));
  const Json& environments = need(reply, "environments");
  if (!environments.is_object()) python::broken_reply("field 'environments' is no object", kToolHost);
  for (const auto& [name, told] : environments.items()) {
    LoadedEnvironment& one = out.environments[name];
    one.class_name = text_in(told, "class");
    one.has_reward = flag_in(told, "reward");
    one.takes_seed = flag_in(told, "seed");
    one.tools = out.tools;
    for (Tool& tool : tools_in(list_in(told, "tools"))) one.tools.push_back(std::move(tool));
  }
  for (const Json& note : list_in(reply, "notes")) {
    if (!note.is_string()) python::broken_reply("a note that is no text", kToolHost);
    out.notes.push_back(note.get<std::string>());
  }
  return out;
}

Answer parse_answer(std::string_view frame) {
  const Json reply = python::parse_reply(frame, kToolHost);
  Answer out;
  if (reply.is_object() && reply.contains("fault")) {
    out.fault = fault_in(reply["fault"]);
    return out;
  }
  const Json& ticket = need(reply, "id");
  if (!ticket.is_number_unsigned()) python::broken_reply("field 'id' is no number", kToolHost);
  out.done = {.ticket = ticket.get<std::uint64_t>(),
              .text = text_in(reply, "text"),
              .failed = flag_in(reply, "failed"),
              .seconds = number_in(reply, "seconds"),
              .note = text_in(reply, "note"),
              .printed = text_in(reply, "printed")};
  if (!need(reply, "reward").is_null()) out.done.reward = number_in(reply, "reward");
  return out;
}

}  // namespace hone::tools
