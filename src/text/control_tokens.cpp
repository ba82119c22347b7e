#include <algorithm>
#include <map>

#include "base/strings/code_points.h"
#include "text/tokenizer_impl.h"
#include "text/tokenizer_keys.h"

namespace hone::text {
namespace {

// Whether a token is special, by its text: a later list says it again.
void read_tokens(const base::Json& list, std::map<std::string, bool>& out) {
  if (!list.is_array()) return;
  for (const base::Json& token : list) {
    if (token.is_array()) {
      read_tokens(token, out);
    } else if (token.is_object() && token.contains("content") && token["content"].is_string()) {
      const bool special = token.contains("special") && token["special"] == true;
      out[token["content"].get<std::string>()] = special;
    }
  }
}

// tokenizer_config.json; an empty object when there is none.
base::Json config_of(const TokenizerFiles& files) {
  const auto config = files.files.find(kTokenizerConfig);
  if (config == files.files.end()) return base::Json::object();
  return base::parse_json(config->second, (base::fs::path(files.where) / kTokenizerConfig).string());
}

}  // namespace

std::optional<base::Json> Tokenizer::response_template() const {
  const base::Json config = config_of(impl_->files);
  const base::Json& found = tokenizer_config_keys().at(config, "response_template");
  return found.is_null() ? std::nullopt : std::optional<base::Json>(found);
}

std::vector<std::string> Tokenizer::control_tokens() const {
  std::map<std::string, bool> tokens;
  const std::string& json = impl_->files.files.at(kTokenizerJson);
  RustText outline, message;
  if (hone_text_tokenizer_outline(json.data(), json.size(), outline.out(), message.out()) != HONE_TEXT_OK)
    throw_unreadable(impl_->files, message.str());
  const base::Json read = base::parse_json(outline.view(), impl_->files.where);
  read_tokens(read.value("added_tokens", base::Json()), tokens);
  if (impl_->files.form.is_object()) read_tokens(impl_->files.form.value("add", base::Json()), tokens);

  const base::Json config = config_of(impl_->files);
  const base::Json& listed = tokenizer_config_keys().at(config, "chat_control_tokens");
  std::string sources = impl_->files.templates.main.value_or("");
  for (const auto& [name, source] : impl_->files.templates.named) sources += source;
  const auto steers = [&](const std::string& text) {
    if (listed.is_array()) return std::ranges::find(listed, base::Json(text)) != listed.end();
    const std::u32string points = base::to_code_points(text);
    return !std::ranges::all_of(points, base::is_space) && sources.find(text) != std::string::npos;
  };
  std::vector<std::string> out;
  for (const auto& [text, special] : tokens)
    if (!text.empty() && (special || steers(text))) out.push_back(text);
  return out;
}

}  // namespace hone::text
