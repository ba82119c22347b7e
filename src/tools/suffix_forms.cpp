#include "tools/suffix_forms.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/strings/code_points.h"

namespace hone::tools {
namespace {

using base::Json;
using Ids = std::vector<std::int32_t>;

// A character that neither the names of the calls nor the results have: one of Unicode's that stand for nothing, else a private one. The
// conversation is cut wherever it stands, so that it may not be anywhere else.
std::string mark_for(const std::vector<Call>& calls, const std::vector<std::string>& texts) {
  constexpr std::array<std::pair<char32_t, char32_t>, 3> kRanges{
      {{0xFDD0, 0xFDEF}, {0xE000, 0xF8FF}, {0xF0000, 0xFFFFD}}};
  for (const auto& [first, last] : kRanges) {
    for (char32_t c = first; c <= last; ++c) {
      const std::string mark = base::to_utf8(std::u32string_view(&c, 1));
      const auto has = [&mark](const std::string& text) { return text.find(mark) != text.npos; };
      const auto named = [&has](const Call& call) { return has(call.name); };
      if (std::ranges::none_of(texts, has) && std::ranges::none_of(calls, named)) return mark;
    }
  }
  return base::to_utf8(U"\uFDD0");  // texts with more than 70,000 different characters
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

}  // namespace

std::string characters_around(const std::string& text, std::size_t at) {
  at = std::min(at, text.size());
  std::size_t begin = at > 20 ? at - 20 : 0;
  std::size_t end = std::min(at + 40, text.size());
  const auto inside = [&text](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  while (begin > 0 && inside(begin)) --begin;
  while (inside(end)) ++end;
  std::string out = "'";
  for (const char c : text.substr(begin, end - begin)) out += c == '\n' ? "\\n" : std::string(1, c);
  return out + "'";
}

SuffixForms::SuffixForms(const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
                         Json template_kwargs, bool plain_control_tokens, std::string where)
    : tokenizer_(&tokenizer),
      chat_(&chat),
      template_kwargs_(std::move(template_kwargs)),
      plain_(plain_control_tokens),
      where_(std::move(where)),
      control_(tokenizer.control_tokens()) {
  for (const std::string& token : control_)
    if (const auto id = tokenizer.token_to_id(token)) control_ids_.insert(*id);
  std::string lost, first;
  for (const auto& [text_arguments, with_ids] :
       std::array<std::pair<bool, bool>, 3>{{{false, false}, {true, false}, {false, true}}}) {
    text_arguments_ = text_arguments;
    with_ids_ = with_ids;
    if (shows_calls(lost)) return;
    if (first.empty()) first = lost;
  }
  throw base::UserError(
      {.where = where_,
       .expected = "a chat template that shows calls of tools and their results",
       .found = first,
       .cause = "a model that was not trained to call tools",
       .fix = "use a model whose template has tools (docs/tools.md), or chat_template_path"});
}

// TRL's supports_tool_calling.
bool SuffixForms::shows_calls(std::string& lost) const {
  const std::vector<Call> calls = {{"tool_name_of_the_probe", {{"key_of_the_probe", "value_of_the_probe"}}}};
  Json messages = Json::array({{{"role", "user"}, {"content", "hi"}}, turn(calls, "", "")});
  for (Json& each : results(calls, {"result_of_the_probe"})) messages.push_back(std::move(each));
  std::string text;
  try {
    text = render(messages, false);
  } catch (const base::UserError& error) {
    lost = "it refuses them: " + error.text().found;
    return false;
  }
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kParts = {
      {{"tool_name_of_the_probe", "the name of the tool"},
       {"key_of_the_probe", "the name of an argument"},
       {"value_of_the_probe", "the value of an argument"},
       {"result_of_the_probe", "the result"}}};
  for (const auto& [part, name] : kParts) {
    if (text.find(part) != text.npos) continue;
    lost = std::string("it leaves out ") + name;
    return false;
  }
  return true;
}

Json SuffixForms::turn(const std::vector<Call>& calls, const std::string& content,
                       const std::string& reasoning) const {
  Json out = Json::object();
  out["role"] = "assistant";
  out["content"] = content;
  if (!reasoning.empty()) out["reasoning_content"] = out["thinking"] = reasoning;
  out["tool_calls"] = Json::array();
  for (const Call& call : calls) {
    Json function = Json::object();
    function["name"] = call.name;
    function["arguments"] = text_arguments_ ? Json(base::dump_json(call.arguments)) : call.arguments;
    Json one = {{"type", "function"}};
    if (with_ids_) one["id"] = "call0000" + std::to_string(out["tool_calls"].size() % 10);
    one["function"] = std::move(function);
    out["tool_calls"].push_back(std::move(one));
  }
  return out;
}

Json SuffixForms::results(const std::vector<Call>& calls, const std::vector<std::string>& texts) const {
  Json out = Json::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json one = {{"role", "tool"}};
    one["name"] = i < calls.size() ? calls[i].name : "unknown";
    one["content"] = texts[i];
    if (with_ids_) one["tool_call_id"] = "call0000" + std::to_string(i % 10);
    out.push_back(std::move(one));
  }
  return out;
}

std::string SuffixForms::render(const Json& messages, bool header) const {
  return chat_
      ->render({.messages = messages,
                .tools = {},
                .template_kwargs = template_kwargs_,
                .add_generation_prompt = header})
      .text;
}

Ids SuffixForms::encode(const std::string& text) const {
  return tokenizer_->encode(text, false).ids;
}

std::string SuffixForms::place_of(const Json& messages, std::size_t at) const {
  std::size_t message = 1;
  for (Json part = Json::array(); message < messages.size(); ++message) {
    part.push_back(messages[message - 1]);
    try {
      if (render(part, false).size() > at) break;
    } catch (const base::UserError&) {  // the beginning of a conversation by itself
    }
  }
  return "message " + std::to_string(message) + " of " + std::to_string(messages.size()) + " (" +
         messages[message - 1]["role"].get<std::string>() + "), character " + std::to_string(at);
}

std::string SuffixForms::text_of(std::int32_t id) const {
  return tokenizer_->decode(std::span(&id, 1), false);
}

bool SuffixForms::is_special(std::int32_t id) const {
  return !text_of(id).empty() && tokenizer_->decode(std::span(&id, 1), true).empty();
}

bool SuffixForms::is_white(std::int32_t id) const {
  const std::u32string points = base::to_code_points(text_of(id));
  return std::ranges::all_of(points, base::is_space);
}

Ids SuffixForms::up_to_turn_end(const std::string& text) const {
  Ids ids = encode(text);
  std::size_t end = ids.size();
  while (end > 0 && !is_control(ids[end - 1]) && is_white(ids[end - 1])) --end;
  if (end > 0 && is_control(ids[end - 1])) ids.resize(end);
  return ids;
}

std::string SuffixForms::cut_control_tokens(const std::string& text, const std::string& mark,
                                            bool everywhere) const {
  std::array<bool, 256> first{};
  for (const std::string& token : control_) first[static_cast<unsigned char>(token.front())] = true;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = at + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0U) == 0x80U) ++next;
    out.append(text, at, next - at);
    const std::string_view rest = std::string_view(text).substr(at);
    const auto begins = [&rest](const std::string& token) { return rest.starts_with(token); };
    if (everywhere || (first[static_cast<unsigned char>(text[at])] && std::ranges::any_of(control_, begins)))
      out += mark;
    at = next;
  }
  return everywhere ? mark + out : out;
}

Ids SuffixForms::encode_pieces(const std::string& text, const std::string& mark) const {
  Ids out;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(mark, from), text.size());
    if (end > from) {
      const Ids ids = encode(text.substr(from, end - from));
      out.insert(out.end(), ids.begin(), ids.end());
    }
    from = end + mark.size();
  }
  return out;
}

std::size_t SuffixForms::control_ids_in(const Ids& ids) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(ids, [this](std::int32_t id) { return is_control(id); }));
}

SuffixForms::Dummy SuffixForms::dummy(const std::vector<Call>& calls) const {
  // TRL names one call, the first: gpt-oss makes the header of a result from it. Templates that match results
  // with calls by their ids need all of them.
  std::vector<Call> named;
  for (const Call& call : calls) {
    named.push_back({.name = call.name, .arguments = Json::object()});
    if (!with_ids_) break;
  }
  Dummy out;
  out.messages = Json::array({{{"role", "user"}, {"content", "dummy"}}, turn(named, "", "")});
  out.text = render(out.messages, false);
  out.ids = up_to_turn_end(out.text);
  const std::vector<std::string> harmless(calls.size(), "x");
  out.control_ids = control_ids_in(behind(out, calls, encode(full(out, calls, harmless))));
  return out;
}

std::shared_ptr<const SuffixForms::Dummy> SuffixForms::kept_dummy(const std::vector<Call>& calls) const {
  constexpr std::size_t kMost = 256;  // the names are the model's
  std::string key;
  for (const Call& call : calls) key += std::to_string(call.name.size()) + " " + call.name;
  const std::lock_guard hold(kept_->lock);
  const auto found = kept_->dummies.find(key);
  if (found != kept_->dummies.end()) return found->second;
  if (kept_->dummies.size() >= kMost) kept_->dummies.clear();
  return kept_->dummies[key] = std::make_shared<const Dummy>(dummy(calls));
}

std::string SuffixForms::full(const Dummy& dummy, const std::vector<Call>& calls,
                              const std::vector<std::string>& texts) const {
  Json messages = dummy.messages;
  for (Json& each : results(calls, texts)) messages.push_back(std::move(each));
  return render(messages, true);
}

Ids SuffixForms::behind(const Dummy& dummy, const std::vector<Call>& calls, const Ids& ids) const {
  if (ids.size() >= dummy.ids.size() && std::equal(dummy.ids.begin(), dummy.ids.end(), ids.begin()))
    return Ids(ids.begin() + static_cast<std::ptrdiff_t>(dummy.ids.size()), ids.end());
  const std::string followed = full(dummy, calls, std::vector<std::string>(calls.size(), "x"));
  const auto [here, there] =
      std::mismatch(dummy.text.begin(), dummy.text.end(), followed.begin(), followed.end());
  const auto at = static_cast<std::size_t>(here - dummy.text.begin());
  throw base::UserError(
      {.where = where_,
       .expected = "a chat template that writes a turn with calls the same once results follow",
       .found = place_of(dummy.messages, at) + ": " + characters_around(dummy.text, at) + " alone, " +
                characters_around(followed, at) + " when the result of '" + calls.front().name + "' follows",
       .cause = "it takes out or adds something in earlier turns, most often their thinking",
       .fix = "use a template without that, by chat_template_path"});
}

Ids SuffixForms::suffix(const std::vector<Call>& calls, const std::vector<std::string>& texts) const {
  base::require(!calls.empty() && calls.size() == texts.size(), "tools::SuffixForms",
                "a result for each call");
  const std::shared_ptr<const Dummy> dummy = kept_dummy(calls);
  if (!plain_) return behind(*dummy, calls, encode(full(*dummy, calls, texts)));

  const std::string mark = mark_for(calls, texts);
  Ids out;
  for (const bool everywhere : {false, true}) {
    std::vector<std::string> cut;
    for (const std::string& text : texts)
      cut.push_back(cut_control_tokens(without(text, mark), mark, everywhere));
    out = behind(*dummy, calls, encode_pieces(full(*dummy, calls, cut), mark));
    if (control_ids_in(out) <= dummy->control_ids) break;
  }
  return out;
}

}  // namespace hone::tools
