// The command line of a benchmark: `--name value` and `--name` alone, each known by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hone::bench {

class Arguments {
 public:
  // `known`: names with a value; `flags`: names without. Anything else is a UserError that lists what there
  // is.
  Arguments(int argc, char** argv, const std::vector<std::string>& known,
            const std::vector<std::string>& flags);

  bool flag(const std::string& name) const { return values_.contains(name); }
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::int64_t number(const std::string& name, std::int64_t otherwise) const;
  // "1,2,4"
  std::vector<std::int64_t> numbers(const std::string& name, std::vector<std::int64_t> otherwise) const;

 private:
  std::map<std::string, std::string> values_;
};

// Runs `body`, says an error on stderr as the program does; the exit code.
int run_main(int (*body)(int, char**), int argc, char** argv);

}  // namespace hone::bench
