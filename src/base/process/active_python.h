// The Python that is started where a run names none (option `python`).
#pragma once

#include <string>

namespace hone::base {

struct ActivePython {
  std::string program;  // a path, or a name that is looked for along PATH
  std::string
      source;  // why this one, for messages: "--python", "HONE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH"
};

// `named`, where it is not empty. Otherwise the one that started hone, where hone is a Python package ($HONE_PYTHON, set by its
// launcher); else that of the active environment: $VIRTUAL_ENV/bin/python,
// $CONDA_PREFIX/bin/python, `python` on PATH (not a Python 2), and last python3.
ActivePython active_python(const std::string& named);

}  // namespace hone::base
