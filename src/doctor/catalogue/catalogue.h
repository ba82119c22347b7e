// The classes of fault that the doctor knows: 60 codes, with what a user sees, why it happens, what hone does
// about it. They are written in faults.txt; report/fault_pages.h prints them, docs/faults.md is made of them.
// The causes were read in issue threads and sources of TRL, PEFT, Unsloth, axolotl and others; those names
// stand where a page quotes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hone::doctor {

enum class FaultStatus {
  kChecked,     // `places` look for it
  kImpossible,  // by construction: `why`, and `proof` is the test that fails if it were not so
  kNotYet,      // `why` names the feature that it waits for
};

struct FaultClass {
  std::string_view code;  // "GRAD-01"; stable
  std::string_view name;  // one line
  // What a user of other tools notices: SILENT (the run "succeeds"), QUIET (one line that is ignored), LOUD
  // (it ends), or "false alarm"; several where it comes in variants.
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

// All 60, in the order GRAD NUM DATA PREF RL DIST CKPT ENV MEM. InternalError for a line of faults.txt that is none.
const std::vector<FaultClass>& fault_classes();
// Upper or lower case; null: no such code.
const FaultClass* find_fault(std::string_view code);
std::vector<std::string> fault_codes();
// "checked", "impossible", "not yet"
inline std::string_view fault_status_name(FaultStatus status) {
  switch (status) {
    case FaultStatus::kChecked:
      return "checked";
    case FaultStatus::kImpossible:
      return "impossible";
    case FaultStatus::kNotYet:
      return "not yet";
  }
  return "";
}

}  // namespace hone::doctor
