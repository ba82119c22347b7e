#include "bench/arguments.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/error.h"

namespace hone::bench {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::int64_t to_number(const std::string& name, const std::string& text) {
  try {
    std::size_t read = 0;
    const std::int64_t value = std::stoll(text, &read);
    if (read == text.size()) return value;
  } catch (const std::exception&) {
    // said below
  }
  throw base::UserError({.where = "--" + name, .expected = "a whole number", .found = text});
}

}  // namespace

Arguments::Arguments(int argc, char** argv, const std::vector<std::string>& known,
                     const std::vector<std::string>& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string name = word.starts_with("--") ? word.substr(2) : "";
    if (contains(flags, name)) {
      values_[name] = "";
    } else if (contains(known, name) && i + 1 < argc) {
      values_[name] = argv[++i];
    } else {
      std::string all;
      for (const auto& option : known) all += " --" + option + " X";
      for (const auto& option : flags) all += " --" + option;
      throw base::UserError({.where = argv[0],
                             .expected = "options of" + all,
                             .found = contains(known, name) ? word + " without a value" : word});
    }
  }
}

std::string Arguments::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::int64_t Arguments::number(const std::string& name, std::int64_t otherwise) const {
  return flag(name) ? to_number(name, values_.at(name)) : otherwise;
}

std::vector<std::int64_t> Arguments::numbers(const std::string& name,
                                             std::vector<std::int64_t> otherwise) const {
  if (!flag(name)) return otherwise;
  std::vector<std::int64_t> out;
  std::istringstream parts(values_.at(name));
  for (std::string part; std::getline(parts, part, ',');) out.push_back(to_number(name, part));
  return out;
}

int run_main(int (*body)(int, char**), int argc, char** argv) {
  try {
    return body(argc, argv);
  } catch (const base::UserError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 70;
  }
}

}  // namespace hone::bench
