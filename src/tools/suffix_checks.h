// What a chat template must do so that a suffix can be put behind what was sampled.
#pragma once

#include <string>
#include <vector>

#include "tools/suffix_forms.h"

namespace hone::tools {

class SuffixChecks {
 public:
  SuffixChecks(const SuffixForms& forms, std::string where) : forms_(forms), where_(std::move(where)) {}

  // The rendered turn and the suffix are together what the template makes of the whole: one call, two calls,
  // two rounds, an empty and a long result, words before the call. A turn with reasoning or one without must
  // be so; where only one is, notes() says it. UserError with the turn and the characters.
  void conversations();
  // Returns what ends a turn with calls. UserError for none, and for one that the suffix has again.
  std::vector<std::int32_t> turn_ends() const;
  void stops(const std::vector<std::int32_t>& ends, const std::vector<std::int32_t>& stop_ids) const;
  void control_tokens() const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Case;
  std::string difference(const Case& one, const std::string& reasoning, bool& refused) const;

  const SuffixForms& forms_;
  std::string where_;
  std::vector<std::string> notes_;
};

}  // namespace hone::tools
