#include "commands/verify/served_template.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings/plural.h"
#include "base/strings/utf8.h"
#include "text/chat_template.h"

namespace hone::commands {

using base::Json;

namespace {

constexpr std::size_t kQuoted = 60;

Json turn(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

std::vector<Json> conversations() {
  const Json user = turn("user", "What is two and three?");
  return {Json::array({user}), Json::array({turn("system", "Answer in one word."), user}),
          Json::array({user, turn("assistant", "Five."), turn("user", "And four?")})};
}

struct Own {
  std::vector<std::int32_t> ids;
  std::string text;
};

std::optional<Own> own_rendering(const train::OpenedText& text, const Json& messages) {
  const text::ChatRequest request{
      .messages = messages, .tools = {}, .template_kwargs = {}, .add_generation_prompt = true};
  try {
    return Own{.ids = text::tokenize_chat(text.tokenizer, *text.chat_template, request).ids,
               .text = text.chat_template->render(request).text};
  } catch (const base::UserError&) {
    return std::nullopt;  // a template without system prompts
  }
}

// llama-server leaves the first token to its tokenizer.
std::string without_begin(const std::string& text, const text::Tokenizer& tokenizer) {
  const auto& begin = tokenizer.special().bos;
  return begin && text.starts_with(*begin) ? text.substr(begin->size()) : text;
}

std::string quoted(const std::string& text, std::size_t from) {
  std::string out;
  for (const char c : base::cut_text(text.substr(std::min(from, text.size())), kQuoted))
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  return "'" + out + "'";
}

// The first place where both differ; empty: nowhere.
std::string difference(const std::string& own, const std::string& served) {
  if (own == served) return "";
  const auto [mine, theirs] = std::mismatch(own.begin(), own.end(), served.begin(), served.end());
  std::size_t at = static_cast<std::size_t>(mine - own.begin());
  while (at > 0 && (static_cast<unsigned char>(own[std::min(at, own.size() - 1)]) & 0xC0U) == 0x80U) --at;
  return "behind " + std::to_string(at) + " bytes the tokenizer's template writes " + quoted(own, at) +
         ", the server " + quoted(served, at);
}

std::string difference(const Own& own, const ServedModel::Rendering& served,
                       const text::Tokenizer& tokenizer) {
  if (served.has_text)
    return difference(without_begin(own.text, tokenizer), without_begin(served.text, tokenizer));
  if (served.has_ids) {
    if (served.ids == own.ids) return "";
    const std::string text = difference(own.text, tokenizer.decode(served.ids, false));
    return text.empty() ? "the same text as " + std::to_string(served.ids.size()) + " tokens and not " +
                              std::to_string(own.ids.size())
                        : text;
  }
  if (served.tokens < 0 || served.tokens == static_cast<std::int64_t>(own.ids.size())) return "";
  return "the server counts " + std::to_string(served.tokens) +
         " tokens of a conversation, and the tokenizer's template " + std::to_string(own.ids.size());
}

}  // namespace

TemplateFinding compare_templates(const ServedModel& served, const train::OpenedText& text) {
  using State = TemplateFinding::State;
  if (text.chat_template == nullptr)
    return {.state = State::kNotCompared, .what = "the tokenizer has no chat template"};
  std::int64_t compared = 0;
  const char* by = "equal tokens";
  try {
    for (const Json& messages : conversations()) {
      const std::optional<Own> own = own_rendering(text, messages);
      if (!own) continue;
      const ServedModel::Rendering rendering = served.render(messages);
      if (!rendering.has_ids && !rendering.has_text && rendering.tokens < 0) continue;
      const std::string found = difference(*own, rendering, text.tokenizer);
      if (!found.empty()) return {.state = State::kDiffers, .what = found};
      by = rendering.has_ids ? "equal tokens" : rendering.has_text ? "equal text" : "equal numbers of tokens";
      ++compared;
    }
  } catch (const base::UserError& error) {
    return {.state = State::kNotCompared, .what = error.text().where + ": " + error.text().found};
  }
  if (compared == 0)
    return {.state = State::kNotCompared, .what = "the server tells nothing of its template"};
  return {.state = State::kEqual, .what = base::counted(compared, "conversation") + ", " + by};
}

}  // namespace hone::commands
