#include "base/files/staging.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/file_errors.h"
#include "base/hash.h"

namespace hone::base {

namespace {

constexpr std::string_view kPrefix = ".hone-partial.";
constexpr std::size_t kLongestName = 255;  // bytes, of every usual file system
constexpr std::size_t kKept = 200;         // bytes of a longer name
constexpr std::size_t kHashLength = 17;    // "~0123456789abcdef"
constexpr const char* kResultFolder = ".hone-result";
constexpr const char* kMarker = "made-by-hone";  // in a result folder that hone made

// A link to a folder is none.
bool is_own_folder(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(fs::symlink_status(path, none));
}

// What lies in folder/.hone-result, in the order of names. UserError when it holds files that hone did not
// put there.
std::vector<std::string> names_of_result(const fs::path& folder, const fs::path& set) {
  if (!is_own_folder(set)) throw_not_ours(folder, set, "a file or a link");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(set, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) throw_system_error(set, "read", error.value());
  const auto marker = std::find(names.begin(), names.end(), kMarker);
  if (marker == names.end() && !names.empty())
    throw_not_ours(folder, set,
                   "a folder that hone did not "
                   "create");
  if (marker != names.end()) names.erase(marker);
  std::sort(names.begin(), names.end());
  return names;
}

// The new file gets the mode of the one that it will replace.
void keep_mode(const fs::path& made, const fs::path& replaced) {
  const int fd = ::open(made.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  keep_mode_and_owner(fd, replaced);
  ::close(fd);
}

}  // namespace

fs::path staging_path(const fs::path& final_path) {
  std::string name = final_path.filename().string();
  if (kPrefix.size() + name.size() > kLongestName) {
    std::array<char, kHashLength + 1> hash{};
    std::snprintf(hash.data(), hash.size(), "~%016llx", static_cast<unsigned long long>(hash64(name)));
    name = name.substr(0, kKept) + hash.data();
  }
  return final_path.parent_path() / (std::string(kPrefix) + name);
}

std::optional<fs::path> final_of_staging(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return std::nullopt;
  const std::string final_name = name.substr(kPrefix.size());
  if (final_name.size() == kKept + kHashLength && final_name[kKept] == '~') return std::nullopt;  // cut
  return path.parent_path() / final_name;
}

fs::path resolve_links(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // the kernel's limit
  fs::path at = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks; ++i) {
    if (!fs::is_symlink(fs::symlink_status(at, error))) return at;
    const fs::path link = fs::read_symlink(at, error);
    if (error) throw_system_error(path, "read", error.value());
    at = link.is_absolute() ? link : at.parent_path() / link;
  }
  throw_system_error(path, "write", ELOOP);
}

void create_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    if (at.has_filename()) missing.push_back(at);  // "a/b/" is "a/b" once more
    if (at == at.parent_path()) break;
  }
  fs::create_directories(folder, error);
  if (error) throw_system_error(folder, "create", error.value());
  for (const fs::path& made : missing) sync_path(parent_of(made));
}

bool recover_former_staging(const fs::path& final_path) {
  fs::path partial = final_path, old = final_path;
  partial += ".partial";
  old += ".hone-old";
  int lock = -1;
  if (is_own_folder(partial)) {
    lock = lock_folder(partial);
    if (lock < 0) return false;
  }
  try {
    if (is_own_folder(old)) {
      if (is_there(final_path)) {
        remove_or_throw(old);
      } else {
        rename_synced(old, final_path);
      }
    }
    if (lock >= 0) remove_or_throw(partial);
  } catch (...) {
    if (lock >= 0) ::close(lock);
    throw;
  }
  if (lock >= 0) ::close(lock);
  return true;
}

void publish(const fs::path& folder, const std::function<void(const fs::path&)>& write,
             std::string_view last) {
  finish_publishing(folder, last);
  {
    StagedFolder staged(folder / kResultFolder);
    write(staged.path());
    write_file_atomic(staged.path() / kMarker, last);
    staged.commit();
  }
  finish_publishing(folder, last);
}

void finish_publishing(const fs::path& folder, std::string_view expected_last) {
  const fs::path set = folder / kResultFolder;
  StagedFolder::recover(set);
  if (!is_there(set)) return;
  const std::vector<std::string> names = names_of_result(folder, set);
  const std::string recorded = is_there(set / kMarker) ? read_text(set / kMarker) : std::string();
  const std::string last = recorded.empty() ? std::string(expected_last) : recorded;
  if (is_there(set / last)) {
    // Without `last` at the top the files there are no set, for a reader that does not look for .hone-result.
    for (const std::string& name : names) keep_mode(set / name, folder / name);
    remove_or_throw(folder / last);
    sync_path(folder);
    for (const std::string& name : names) {
      if (name != last) rename_or_throw(set / name, folder / name);
    }
    sync_path(folder);
    sync_path(set);
    rename_synced(set / last, folder / last);
  }
  remove_or_throw(set / kMarker);
  if (::rmdir(set.c_str()) != 0 && errno != ENOENT) throw_system_error(set, "remove", errno);
  sync_path(folder);
}

void finish_publishing_before_reading(const fs::path& folder, std::string_view last) {
  if (!is_there(folder)) StagedFolder::recover(folder);
  const fs::path set = folder / kResultFolder;
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && is_there(set); ++i) {
    const int lock = lock_folder(folder);
    if (lock >= 0) {
      try {
        finish_publishing(folder, last);
      } catch (...) {
        ::close(lock);
        throw;
      }
      ::close(lock);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (is_there(set)) throw_busy(folder);
}

}  // namespace hone::base
