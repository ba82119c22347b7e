// Objects with very many keys in linear time, and JSON in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.h"
#include "base/json.h"

namespace hone::base {

// Fills a Json object, which looks a key up by walking through all of them: beyond a few keys this keeps an
// index. Nothing else may change the object meanwhile.
class ObjectFiller {
 public:
  explicit ObjectFiller(Json& object);  // an object; its own keys count
  // The member `key`, new and null or the one that is there. Valid until the next call.
  Json& at(const std::string& key);

 private:
  Json::object_t& members_;
  std::unordered_map<std::string, std::size_t> index_;  // of every key, once there are more than a few
};

// dump_json in at most about `most` bytes, for messages that quote a file.
std::string short_json(const Json& value, std::size_t most = 200);

// A file of settings: read_text, but UserError for one of more than `most` bytes, or an endless one.
inline constexpr std::size_t kMostSettingsBytes = std::size_t{16} << 20;
std::string read_settings(const fs::path& path, std::size_t most = kMostSettingsBytes);

}  // namespace hone::base
