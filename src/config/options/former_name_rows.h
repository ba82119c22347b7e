// The kinds of rows in the tables of former names and dialects (former_names.cpp, dialects.cpp).
#pragma once

#include "config/option_table.h"

namespace hone::config {

inline constexpr std::string_view kTraining = "training";  // every method

// Another name of `option`; `words` as FormerName has them.
inline FormerName renamed(std::string_view name, std::string_view whose, std::string_view option,
                          std::string_view commands = kTraining, std::string_view words = {}) {
  return {.name = name,
          .whose = whose,
          .fate = Fate::kOption,
          .option = option,
          .words = words,
          .commands = commands};
}

inline FormerName noted(std::string_view name, std::string_view whose, std::string_view why,
                        std::string_view commands = kTraining) {
  return {.name = name, .whose = whose, .fate = Fate::kNote, .why = why, .commands = commands};
}

inline FormerName refused_name(std::string_view name, std::string_view whose, std::string_view why,
                               std::string_view fix, std::string_view commands = kTraining) {
  return {.name = name, .whose = whose, .fate = Fate::kRefused, .why = why, .fix = fix, .commands = commands};
}

}  // namespace hone::config
