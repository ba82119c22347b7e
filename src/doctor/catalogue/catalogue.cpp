#include "doctor/catalogue/catalogue.h"

#include <algorithm>
#include <cctype>

namespace hone::doctor {

const std::vector<FaultClass>& fault_classes() {
  static const std::vector<FaultClass> all = [] {
    std::vector<FaultClass> joined;
    for (const auto& table : {weight_faults(), data_faults(), policy_faults(), run_faults()}) {
      joined.insert(joined.end(), table.begin(), table.end());
    }
    return joined;
  }();
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
