// The classes of fault that the doctor knows, by code, with the symptom, the cause, and what hone does. They
// are written in faults.txt; report/core_only/fault_pages.h prints them and generates docs/faults.md. The causes come
// from issue threads and sources of TRL, PEFT, Unsloth, axolotl and others, which a page names when it quotes
// them.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_names.h"

namespace hone::doctor {

enum class FaultStatus {
  kChecked,     // the code in `places` checks for it
  kImpossible,  // by construction: `why`, and `proof` is the test that fails if it were not so
  kNotYet,      // `why` names the feature that it needs
};

struct FaultClass {
  std::string_view code;  // "GRAD-01"; stable
  std::string_view name;  // one line
  // Says what a user of other tools notices: SILENT (the run "succeeds"), QUIET (one line that is ignored),
  // LOUD (it ends), or "false alarm"; several if there are variants.
  std::string_view flag;
  // When it can be found: letters of "CPRX", static config, preflight, run time, export.
  std::string_view when;
  std::string_view symptom, cause;
  std::string_view check;   // how hone finds it
  std::string_view advice;  // what to do
  FaultStatus status = FaultStatus::kChecked;
  // source files that name the code, separated by spaces; of kChecked at least one
  std::string_view places = {};
  std::string_view why = {};
  std::string_view proof = {};  // "tests/train/x_test.cpp Suite.Name"
};

// All, in the order GRAD NUM DATA PREF RL TOOL DIST CKPT ENV MEM. InternalError for a malformed line of
// faults.txt.
const std::vector<FaultClass>& fault_classes();
// Upper or lower case; null: no such code.
const FaultClass* find_fault(std::string_view code);
std::vector<std::string> fault_codes();
// "checked", "impossible", "not yet"
inline std::string_view fault_status_name(FaultStatus status) {
  static constexpr std::array<std::string_view, 3> kNames = {"checked", "impossible", "not yet"};
  return base::enum_name(kNames, status);
}

}  // namespace hone::doctor
