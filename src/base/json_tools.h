// Builds objects with very many keys in linear time; shortens JSON for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::base {

// Fills a Json object and keeps an index of its keys, since Json searches them linearly. Nothing else may
// change the object meanwhile.
class ObjectFiller {
 public:
  explicit ObjectFiller(Json& object);  // keys that it already has are indexed
  // The member `key`; created as null when absent. Valid until the next call.
  Json& at(const std::string& key);

 private:
  Json::object_t& members_;
  std::unordered_map<std::string, std::size_t> index_;  // of all keys, built once there are more than a few
};

// dump_json in at most about `most` bytes, for messages that quote a file.
std::string short_json(const Json& value, std::size_t most = 200);

// read_text for a settings file. UserError when it has more than `most` bytes, or is an endless device.
inline constexpr std::size_t kMaxSettingsBytes = std::size_t{16} << 20;
std::string read_settings(const fs::path& path, std::size_t most = kMaxSettingsBytes);

// The object in a file; an empty one where there is no such file, none that can be read, or no object in it.
Json read_object(const fs::path& file);

}  // namespace hone::base
