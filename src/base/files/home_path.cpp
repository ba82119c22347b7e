#include "base/files/home_path.h"

#include <pwd.h>

#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/files/path_kind.h"

namespace hone::base {

namespace {

// The home of another user; empty: there is no such user, or nobody knows.
std::string home_of(const std::string& user) {
  constexpr std::size_t kBytes = 16 << 10;
  std::array<char, kBytes> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  const int error = ::getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return error == 0 && found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

}  // namespace

std::string expand_home(const std::string& path, const std::string& where) {
  if (!path.starts_with("~")) return path;
  const std::size_t slash = path.find('/');
  const std::string user = path.substr(1, slash == std::string::npos ? slash : slash - 1);
  const std::string rest = slash == std::string::npos ? "" : path.substr(slash);
  if (!user.empty()) {
    const std::string home = home_of(user);
    return home.empty() ? path : home + rest;
  }
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (home != nullptr && *home != '\0') return home + rest;
  throw UserError({.where = where,
                   .expected = "a path",
                   .found = "'" + path + "', and the environment variable HOME is not set",
                   .cause = "~ is the home folder, which HOME names",
                   .fix = "set HOME, or write the whole path"});
}

std::optional<std::string> folder_of_variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (value == nullptr || !is_folder(value)) return std::nullopt;
  return value;
}

}  // namespace hone::base
