#include "base/json_tools.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/strings/utf8.h"

namespace hone::base {

namespace {

constexpr std::size_t kFewKeys = 16;  // as many are found faster by looking

}  // namespace

ObjectFiller::ObjectFiller(Json& object) : members_(object.get_ref<Json::object_t&>()) {}

Json& ObjectFiller::at(const std::string& key) {
  Json::object_t::Container& all = members_;
  if (all.size() < kFewKeys) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == key; });
    return found != all.end() ? found->second : all.emplace_back(key, nullptr).second;
  }
  if (index_.empty()) {
    for (std::size_t i = 0; i < all.size(); ++i) index_.emplace(all[i].first, i);
  }
  const auto [place, is_new] = index_.emplace(key, all.size());
  return is_new ? all.emplace_back(key, nullptr).second : all[place->second].second;
}

std::string short_json(const Json& value, std::size_t most) {
  return cut_text(dump_json(value), most);
}

std::string read_settings(const fs::path& path, std::size_t most) {
  std::error_code ec;
  const bool regular = fs::is_regular_file(path, ec);
  const auto too_large = [&](const std::string& found) {
    throw UserError({.where = path.string(),
                     .expected = "a file of at most " + human_bytes(most),
                     .found = found,
                     .cause = "another kind of file under this name",
                     .fix = "name the right file, or download it again"});
  };
  if (regular) {
    const std::uintmax_t size = fs::file_size(path, ec);
    if (!ec && size > most) too_large(human_bytes(size));
  }
  if (regular || !fs::exists(path, ec) || fs::is_directory(path, ec)) return read_text(path);
  std::ifstream file(path, std::ios::binary);  // a pipe, or a device that may never end
  std::string out(most + 1, '\0');
  file.read(out.data(), static_cast<std::streamsize>(out.size()));
  const auto got = static_cast<std::size_t>(file.gcount());
  if (!file && got == 0 && !file.eof()) return read_text(path);  // which says what is wrong
  if (got > most) too_large("a stream without an end");
  out.resize(got);
  return out;
}

Json read_object(const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return Json::object();
  try {
    Json read = Json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
    return read.is_object() ? read : Json::object();
  } catch (const UserError&) {  // not readable
    return Json::object();
  }
}

}  // namespace hone::base
