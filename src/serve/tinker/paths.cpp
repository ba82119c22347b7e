#include "serve/tinker/paths.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/files/staging.h"
#include "base/strings/printable.h"

namespace hone::serve {
namespace {

constexpr std::string_view kScheme = "tinker://";
constexpr std::size_t kLongest = 128;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == ':' || c == '-';
}

[[noreturn]] void no_path(std::string_view text) {
  throw base::UserError({.where = "path",
                         .expected =
                             "tinker://RUN/weights/NAME or tinker://RUN/sampler_weights/NAME, with names of "
                             "letters, digits and . _ : -",
                         .found = "'" + base::printable(text.substr(0, 200)) + "'",
                         .cause = {},
                         .fix = {}});
}

[[noreturn]] void absent(const TinkerPath& path, const char* what) {
  throw base::UserError({.where = path.text(),
                         .expected = "weights that were saved",
                         .found = what,
                         .cause = "they were deleted, or saved by a server with another --root",
                         .fix = "list what there is: RestClient.list_checkpoints"});
}

}  // namespace

std::string_view word_of(WeightsKind kind) {
  return kind == WeightsKind::kTraining ? "weights" : "sampler_weights";
}

std::string TinkerPath::checkpoint_id() const {
  return std::string(word_of(kind)) + "/" + name;
}

std::string TinkerPath::text() const {
  return std::string(kScheme) + run + "/" + checkpoint_id();
}

bool is_path_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongest && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

void require_path_name(std::string_view name, const char* field) {
  if (is_path_name(name)) return;
  throw base::UserError({.where = field,
                         .expected = "1 to 128 letters, digits and . _ : -",
                         .found = "'" + base::printable(name.substr(0, 200)) + "'",
                         .cause = "it becomes a folder's name",
                         .fix = {}});
}

TinkerPath parse_tinker_path(std::string_view text) {
  if (!text.starts_with(kScheme)) no_path(text);
  std::vector<std::string_view> parts;
  std::string_view rest = text.substr(kScheme.size());
  for (std::size_t slash = 0; slash != std::string_view::npos;) {
    slash = rest.find('/');
    parts.push_back(rest.substr(0, slash));
    if (slash != std::string_view::npos) rest.remove_prefix(slash + 1);
  }
  if (parts.size() != 3 || !is_path_name(parts[0]) || !is_path_name(parts[2])) no_path(text);
  TinkerPath out{.run = std::string(parts[0]), .name = std::string(parts[2])};
  if (parts[1] == word_of(WeightsKind::kSampler)) {
    out.kind = WeightsKind::kSampler;
  } else if (parts[1] != word_of(WeightsKind::kTraining)) {
    no_path(text);
  }
  return out;
}

std::string folder_name(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), ':', '+');
  return out;
}

std::optional<std::string> name_of_folder(std::string_view folder) {
  if (folder.starts_with('.')) return std::nullopt;  // staged
  std::string out(folder);
  std::replace(out.begin(), out.end(), '+', ':');
  if (!is_path_name(out)) return std::nullopt;
  return out;
}

base::fs::path folder_of(const base::fs::path& root, const TinkerPath& path) {
  return root / folder_name(path.run) / word_of(path.kind) / folder_name(path.name);
}

base::fs::path existing_folder(const base::fs::path& root, const TinkerPath& path) {
  const base::fs::path folder = folder_of(root, path);
  base::StagedFolder::recover(folder);
  for (const base::fs::path& each : {folder.parent_path().parent_path(), folder.parent_path(), folder}) {
    std::error_code error;
    const base::fs::file_status status = base::fs::symlink_status(each, error);
    if (error || !base::fs::exists(status)) absent(path, "nothing");
    if (!base::fs::is_directory(status)) absent(path, "a link or a file");
  }
  std::error_code error;
  for (const auto& entry : base::fs::directory_iterator(folder, error))
    if (!base::fs::is_regular_file(entry.symlink_status(error))) absent(path, "a link in its folder");
  if (error) absent(path, "a folder that cannot be read");
  return folder;
}

void make_parents(const base::fs::path& root, const TinkerPath& path) {
  base::create_folders(root);
  const base::fs::path run = root / folder_name(path.run);
  for (const base::fs::path& each : {run, run / word_of(path.kind)}) {
    std::error_code error;
    base::fs::create_directory(each, error);
    if (base::fs::is_directory(base::fs::symlink_status(each, error))) continue;
    throw base::UserError({.where = each.string(),
                           .expected = "a folder below the server's root",
                           .found = "a link, a file, or nothing that can be made",
                           .cause = {},
                           .fix = "remove it, or start the server with another --root"});
  }
}

}  // namespace hone::serve
