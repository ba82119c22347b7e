#include "doctor/catalogue/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/strings/lines.h"
#include "doctor/catalogue/faults_text.h"

namespace hone::doctor {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view FaultClass::*>, 9> kFields = {{
    {"flag", &FaultClass::flag},
    {"when", &FaultClass::when},
    {"symptom", &FaultClass::symptom},
    {"cause", &FaultClass::cause},
    {"check", &FaultClass::check},
    {"advice", &FaultClass::advice},
    {"places", &FaultClass::places},
    {"why", &FaultClass::why},
    {"proof", &FaultClass::proof},
}};

[[noreturn]] void throw_bad_line(std::string_view line) {
  throw base::InternalError({.where = "doctor/catalogue/faults.txt",
                             .expected = "`## CODE name`, a field or a status",
                             .found = std::string(line)});
}

FaultStatus status_of(std::string_view name, std::string_view line) {
  for (const FaultStatus status : {FaultStatus::kChecked, FaultStatus::kImpossible, FaultStatus::kNotYet}) {
    if (name == fault_status_name(status)) return status;
  }
  throw_bad_line(line);
}

// "symptom: ..." of the class that the lines above began.
void read_field(std::string_view line, FaultClass& fault) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) throw_bad_line(line);
  const std::string_view key = line.substr(0, colon), value = line.substr(colon + 2);
  if (key == "status") {
    fault.status = status_of(value, line);
    return;
  }
  const auto* const field =
      std::find_if(kFields.begin(), kFields.end(), [&](const auto& one) { return one.first == key; });
  if (field == kFields.end()) throw_bad_line(line);
  fault.*field->second = value;
}

std::vector<FaultClass> read_faults(std::string_view text) {
  std::vector<FaultClass> out;
  for (const std::string_view line : base::line_views(text)) {
    if (line.starts_with("## ")) {
      const std::size_t space = line.find(' ', 3);
      if (space == std::string_view::npos) throw_bad_line(line);
      out.push_back({.code = line.substr(3, space - 3), .name = line.substr(space + 1)});
    } else if (!line.empty() && !line.starts_with('#')) {
      if (out.empty()) throw_bad_line(line);
      read_field(line, out.back());
    }
  }
  return out;
}

}  // namespace

const std::vector<FaultClass>& fault_classes() {
  static const std::vector<FaultClass> all = read_faults(kFaultsText);
  return all;
}

const FaultClass* find_fault(std::string_view code) {
  std::string upper(code);
  for (char& letter : upper) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  const auto& all = fault_classes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const FaultClass& one) { return one.code == upper; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> fault_codes() {
  std::vector<std::string> out;
  for (const FaultClass& one : fault_classes()) out.emplace_back(one.code);
  return out;
}

}  // namespace hone::doctor
