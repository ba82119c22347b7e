// One table of names per trainer: what each is called here, that trainer's own default, and why a name is
// passed over or refused.
#pragma once

#include <span>
#include <string_view>

#include "config/others/other_run.h"

namespace hone::config {

enum class OtherFate {
  kOption,   // `option` of hone, with the value as it is written
  kPart,     // read with others by the trainer's own function
  kNote,     // without an effect on what is learned here: `why`
  kRefused,  // another result than hone's: `why`, `fix`; null, false, 0, none and empty values are no request
};

struct OtherName {
  std::string_view name;  // "vllm_*" is each name that begins so and has no row of its own
  OtherFate fate = OtherFate::kPart;
  std::string_view option = {};  // kOption
  std::string_view fallback =
      {};  // kOption: that trainer's default, as JSON; empty: hone's own default is the same
  std::string_view words = {};  // kOption: values with other names here: "left=keep_end right=keep_start"
  std::string_view why = {}, fix = {};
};

constexpr OtherName becomes(std::string_view name, std::string_view option, std::string_view fallback = {},
                            std::string_view words = {}) {
  return {.name = name, .fate = OtherFate::kOption, .option = option, .fallback = fallback, .words = words};
}
constexpr OtherName part(std::string_view name) {
  return {.name = name};
}
constexpr OtherName passed(std::string_view name, std::string_view why) {
  return {.name = name, .fate = OtherFate::kNote, .why = why};
}
constexpr OtherName rejected(std::string_view name, std::string_view why, std::string_view fix) {
  return {.name = name, .fate = OtherFate::kRefused, .why = why, .fix = fix};
}

namespace axolotl {
std::span<const OtherName> names();
}
namespace factory {
std::span<const OtherName> names();
}
namespace swift {
std::span<const OtherName> names();
// The linears that version 2 adapts where the file names none, separated by blanks: of models with this word.
struct OldTargets {
  std::string_view word, targets;
};
std::span<const OldTargets> old_targets();
}  // namespace swift
namespace torchtune {
std::span<const OtherName> names();
}

}  // namespace hone::config
