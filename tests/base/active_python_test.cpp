// Which Python is started where a run names none.
#include "base/process/active_python.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/files/file.h"
#include "base/helpers.h"

namespace hone::base {
namespace active_python_test {

// Sets a variable for one scope; nullopt: it is not there.
class Variable {
 public:
  Variable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_); }

 private:
  void set(const std::optional<std::string>& value) const {
    if (value) {
      ::setenv(name_, value->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

std::string put_program(const fs::path& path) {
  fs::create_directories(path.parent_path());
  put(path, "#!/bin/sh\n");
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

TEST(ActivePython, IsThatOfTheActiveEnvironment) {
  const TempFolder folder;
  const std::string of_venv = put_program(folder / "venv/bin/python"),
                    of_conda = put_program(folder / "conda/bin/python");
  const Variable path("PATH", (folder / "bin").string());
  const Variable venv("VIRTUAL_ENV", (folder / "venv").string()),
      conda("CONDA_PREFIX", (folder / "conda").string());
  EXPECT_EQ(active_python("python3.12").program, "python3.12") << "what is named";
  EXPECT_EQ(active_python("").program, of_venv);
  EXPECT_EQ(active_python("").source, "VIRTUAL_ENV");
  {
    const Variable starter("HONE_PYTHON", of_conda);
    EXPECT_EQ(active_python("").program, of_conda) << "the Python that started hone comes before";
    EXPECT_EQ(active_python("").source, "HONE_PYTHON");
    EXPECT_EQ(active_python("python3.12").program, "python3.12");
  }
  const Variable no_starter("HONE_PYTHON", (folder / "gone").string());
  const Variable no_venv("VIRTUAL_ENV", std::nullopt);
  EXPECT_EQ(active_python("").program, of_conda);
  const Variable gone("CONDA_PREFIX", (folder / "gone").string());
  EXPECT_EQ(active_python("").program, "python3") << "nothing else is there";
  put_program(folder / "bin/python");
  EXPECT_EQ(active_python("").program, "python");
  EXPECT_EQ(active_python("").source, "PATH");
}

TEST(ActivePython, IsNoPython2) {
  const TempFolder folder;
  put_program(folder / "bin/python2.7");
  fs::create_symlink("python2.7", folder / "bin/python");
  const Variable path("PATH", (folder / "bin").string());
  const Variable venv("VIRTUAL_ENV", std::nullopt), conda("CONDA_PREFIX", std::nullopt);
  EXPECT_EQ(active_python("").program, "python3");
}

}  // namespace active_python_test
}  // namespace hone::base
