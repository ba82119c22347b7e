// tinker://RUN/KIND/NAME: where a client's weights are. A path is parsed, never joined as text: it has
// exactly three parts, RUN and NAME match [A-Za-z0-9_:-][A-Za-z0-9._:-]{0,127}, and KIND is weights or
// sampler_weights.
//
// Below the root a run is a folder, `:` in names written `+`: ROOT/RUN/weights/NAME. No link is followed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/file.h"

namespace hone::serve {

enum class WeightsKind : std::uint8_t { kTraining, kSampler };

struct TinkerPath {
  std::string run;
  WeightsKind kind = WeightsKind::kTraining;
  std::string name;

  std::string text() const;           // "tinker://RUN/weights/NAME"
  std::string checkpoint_id() const;  // "weights/NAME"
};

// "weights" or "sampler_weights".
std::string_view word_of(WeightsKind kind);
bool is_path_name(std::string_view name);
// UserError, which says what a path looks like.
TinkerPath parse_tinker_path(std::string_view text);
// A name that a client gives to what it saves. UserError.
void require_path_name(std::string_view name, const char* field);

std::string folder_name(std::string_view name);                      // `:` as `+`
std::optional<std::string> name_of_folder(std::string_view folder);  // nothing: no such name
base::fs::path folder_of(const base::fs::path& root, const TinkerPath& path);

// The folder of an existing path. UserError where it, what is in it, or a folder above it below `root` is
// absent or a link.
base::fs::path existing_folder(const base::fs::path& root, const TinkerPath& path);
// Makes ROOT/RUN/KIND; UserError where one of them is a link or a file.
void make_parents(const base::fs::path& root, const TinkerPath& path);

}  // namespace hone::serve
