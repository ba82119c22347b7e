// The watch's state in a checkpoint: a resumed run is treated as if it had not been stopped, and nothing is
// reported twice. The memory statistics (MEM-02) are not kept, since they belong to one process.
//
// watch_state.json:
//   {"format": "hone-watch-1", "judged": 3735928559, "told": {"GRAD-02": 3}, "suspected": false,
//    "healthy": -1, "loss_explained": true, "last_reward": 0.5, "tensors": {...}, "trend": {...},
//    "preference": {...}, "spikes": {...}, "rewards": {...}, "policy": {...}}
// "judged" is a hash of the options and the data; if they change, the baselines are unknown.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "base/json.h"

namespace hone::doctor {

constexpr const char* kWatchStateFile = "watch_state.json";

// A file that no watch wrote. The watch restarts with a note; the run itself does not need it.
class BadWatchState : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One object of the file; every value is checked before use.
class StateReader {
 public:
  explicit StateReader(const base::Json& json) : json_(json) {
    if (!json.is_object()) throw BadWatchState("no object");
  }
  [[noreturn]] static void refuse(const std::string& name) {
    throw BadWatchState("no fitting value of \"" + name + "\"");
  }
  const base::Json& at(const std::string& name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse(name);
    return *found;
  }
  std::int64_t count(const std::string& name, std::int64_t least = 0) const {
    const base::Json& value = at(name);
    if (!value.is_number_integer()) refuse(name);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMaxCounted}) refuse(name);
    const auto out = value.get<std::int64_t>();
    if (out < least || out > kMaxCounted) refuse(name);
    return out;
  }
  double number(const std::string& name) const {
    const base::Json& value = at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(name);
    return value.get<double>();
  }
  bool flag(const std::string& name) const {
    if (!at(name).is_boolean()) refuse(name);
    return at(name).get<bool>();
  }
  std::string text(const std::string& name) const {
    if (!at(name).is_string() || at(name).get_ref<const std::string&>().size() > kMaxText) refuse(name);
    return at(name).get<std::string>();
  }
  const base::Json& list(const std::string& name, std::size_t most) const {
    if (!at(name).is_array() || at(name).size() > most) refuse(name);
    return at(name);
  }
  template <typename Container>
  Container numbers(const std::string& name, std::size_t most) const {
    Container out;
    for (const base::Json& value : list(name, most)) {
      if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(name);
      out.push_back(value.get<double>());
    }
    return out;
  }

 private:
  static constexpr std::int64_t kMaxCounted = std::int64_t{1} << 53;  // no sum of a few overflows
  static constexpr std::size_t kMaxText = 4096;
  const base::Json& json_;
};

}  // namespace hone::doctor
