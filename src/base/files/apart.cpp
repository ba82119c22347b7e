#include "base/files/apart.h"

#include <sys/stat.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings/ascii.h"

namespace hone::base {

namespace {

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> id_of(const fs::path& path) {
  struct stat found{};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId(found.st_dev, found.st_ino);
}

// Calls `take` for `path` and, of a folder, for everything in it. Links of files are followed, those of
// folders within it are not: whoever removes a folder removes the link.
template <typename Take>
void for_all(const fs::path& path, const Take& take) {
  take(path);
  std::error_code error;
  if (!fs::is_directory(path, error)) return;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(path, kSkip, error), end; !error && at != end; at.increment(error))
    take(at->path());
}

// The same for a folder and the files directly in it: what hone reads of a model, a tokenizer or an adapter.
// A folder in it may be the one that is written.
template <typename Take>
void for_files(const fs::path& path, const Take& take) {
  take(path);
  std::error_code error, gone;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(gone)) take(at->path());
  }
}

using Touched = std::map<FileId, fs::path>;  // what is written over or removed

Touched touched_by(const WrittenPlace& written) {
  Touched out;
  const auto add = [&out](const fs::path& path) {
    if (const auto id = id_of(path)) out.emplace(*id, path);
  };
  if (!written.touches) {
    for_all(written.path, add);
    return out;
  }
  std::error_code error;
  for (fs::directory_iterator at(written.path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (written.touches(name) || written.touches(lower_ascii(name))) for_all(at->path(), add);
  }
  return out;
}

// The part of `read`, or the folder around it, that is touched: as the writer calls it.
std::optional<fs::path> meeting(const Touched& touched, const fs::path& read, bool own) {
  std::optional<fs::path> out;
  const auto look = [&](const fs::path& path) {
    if (out) return;
    const auto id = id_of(path);
    const auto found = id ? touched.find(*id) : touched.end();
    if (found != touched.end()) out = found->second;
  };
  if (own) {
    look(read);
  } else {
    for_files(read, look);
  }
  std::error_code error;
  for (fs::path at = fs::canonical(read, error); !out && !error && at != at.parent_path();
       at = at.parent_path())
    look(at);
  return out;
}

[[noreturn]] void refuse(const WrittenPlace& written, const ReadPlace& read, const std::string& found) {
  std::string real;
  std::error_code error;
  if (const fs::path at = fs::canonical(read.path, error);
      !error && at != fs::absolute(read.path).lexically_normal())
    real = " (" + at.string() + ")";
  const bool folder = written.touches != nullptr;
  throw UserError({.where = written.option + " " + written.path.string(),
                   .expected = std::string(folder ? "a folder" : "a file") +
                               " apart from what is read: that is never removed or overwritten",
                   .found = read.option + " " + read.path.string() + real + " " + found,
                   .cause = "the same place was named for both, perhaps through a link",
                   .fix = "name another " + written.option + (folder ? ", such as runs/first" : "")});
}

}  // namespace

void require_apart(const std::vector<WrittenPlace>& written, const std::vector<ReadPlace>& read) {
  for (const WrittenPlace& place : written) {
    const auto own = place.touches ? id_of(place.path) : std::nullopt;
    const Touched touched = touched_by(place);
    if (!own && touched.empty()) continue;
    for (const ReadPlace& one : read) {
      if (own && id_of(one.path) == own) refuse(place, one, "is the same folder");
      if (touched.empty()) continue;
      if (const auto met = meeting(touched, one.path, place.own))
        refuse(place, one, "meets " + met->string() + ", which is written over");
    }
  }
}

}  // namespace hone::base
