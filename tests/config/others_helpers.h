// Shared by the tests of other trainers' files.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "config/others/other_plan.h"
#include "config/settings.h"
#include "config/write_plan.h"

namespace hone::config {

// What a text becomes; the trainer is recognized by its names.
inline OtherRun other_run(const std::string& text, const std::string& path = "run.yaml",
                          const OtherAsked& more = {}) {
  const auto whose = recognize(text, path);
  if (!whose) {
    ADD_FAILURE() << "not recognized:\n" << text;
    return {};
  }
  OtherAsked asked = more;
  asked.path = path;
  return read_other(text, asked, *whose);
}

// "max_length: 512 default"; "absent".
inline std::string option_of(const OtherRun& run, std::string_view name) {
  const OtherValue* one = run.find(name);
  if (one == nullptr) return "absent";
  return yaml_text(one->value) + (one->is_default() ? " default" : "");
}

// All that was said, one finding a line: "note run.yaml:7 rl: ...".
inline std::string findings_of(const OtherRun& run) {
  std::string out;
  for (const OtherNote& one : run.notes) out += "note " + one.where + " " + one.name + ": " + one.text + "\n";
  for (const OtherUnknown& one : run.unknown)
    out += "unknown " + one.where + " " + one.name + ": " + one.why + "\n";
  for (const OtherRefusal& one : run.refused)
    out += "refused " + one.where + " " + one.name + ": " + one.why + "\n";
  return out;
}

inline void expect_finding(const OtherRun& run, const std::string& part) {
  EXPECT_NE(findings_of(run).find(part), std::string::npos) << part << "\nis not in\n" << findings_of(run);
}

// Method, and options as "name: value"; a value of the trainer's own ends with " default".
struct OtherExpected {
  std::string method;
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> findings;
  std::size_t unknown = 0, refused = 0;
};
inline void expect_run(const OtherRun& run, const OtherExpected& expected) {
  EXPECT_EQ(method_name(run.method), expected.method);
  for (const auto& [name, value] : expected.options) EXPECT_EQ(option_of(run, name), value) << name;
  for (const std::string& part : expected.findings) expect_finding(run, part);
  EXPECT_EQ(run.unknown.size(), expected.unknown) << findings_of(run);
  EXPECT_EQ(run.refused.size(), expected.refused) << findings_of(run);
}

}  // namespace hone::config
