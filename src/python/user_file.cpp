#include "python/user_file.h"

#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/strings/suggest.h"

namespace hone::python {

namespace fs = base::fs;

std::string whole_path(const std::string& file, const std::string& where) {
  std::error_code error;
  const fs::path path = fs::absolute(file, error);
  if (fs::is_regular_file(path, error)) return path.lexically_normal().string();
  std::vector<std::string> near;
  for (const auto& entry : fs::directory_iterator(path.parent_path(), error)) {
    if (entry.path().extension() == ".py") near.push_back(entry.path().filename().string());
  }
  const std::string guess = base::did_you_mean(path.filename().string(), near);
  throw base::UserError({.where = where,
                         .expected = "a Python file " + file,
                         .found = fs::exists(path, error) ? "something else of this name" : "no such file",
                         .cause = "looked for " + path.string(),
                         .fix = "name the file from the working folder, or in full." + guess});
}

}  // namespace hone::python
