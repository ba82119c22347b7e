#include "tools/families.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/hash.h"
#include "text/turn_end.h"
#include "tools/families/texts.h"
#include "tools/response_template.h"

namespace hone::tools {
namespace {

using base::Json;

Family read(std::string_view text) {
  const Json file = base::parse_json(text, "src/tools/families");
  return {.name = file.at("family").get<std::string>(),
          .chat_templates = file.at("chat_templates").get<std::vector<std::string>>(),
          .response_template = file.at("response_template"),
          .extra = file.value("extra", Json()),
          .beyond_trl = file.value("beyond_trl", false)};
}

std::string key_of(std::string_view text) {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%zu:%016llX", text.size(),
                static_cast<unsigned long long>(base::hash64(text)));
  return out.data();
}

// A question and its answers as `chat` renders them, each answer apart from its prompt.
class Probe {
 public:
  explicit Probe(const text::ChatTemplate& chat) : chat_(chat) {
    tools_ =
        Json::parse(R"([{"type": "function", "function": {"name": "probe_tool", "description": "A probe.",
        "parameters": {"type": "object", "properties": {
            "probe_text": {"type": "string", "description": "A text."},
            "probe_count": {"type": "integer", "description": "A number."}},
          "required": ["probe_text", "probe_count"]}}}])");
    // Arguments in the order of their names: some templates sort them.
    call_ = call_message("probe_tool", {{"probe_count", 7}, {"probe_text", "two words"}});
    one_ = render(Json::array({call_}), false);
    if (one_.empty()) {  // Mistral's templates want ids of nine letters
      call_["tool_calls"][0]["id"] = "call00000";
      one_ = render(Json::array({call_}), false);
    }
    Json two = call_;
    two["tool_calls"].push_back(two["tool_calls"][0]);
    two_ = render(Json::array({two}), false);
    plain_ = render(Json::array({{{"role", "assistant"}, {"content", kAnswer}}}), false);
    prompt_ = render(Json::array(), true);
    const std::string bare = render(Json::array(), false);
    // What stands before a plain answer too: some prompts close the reasoning.
    const auto common = static_cast<std::size_t>(
        std::mismatch(prompt_.begin(), prompt_.end(), plain_.begin(), plain_.end()).first - prompt_.begin());
    if (prompt_.starts_with(bare) && common > bare.size())
      header_ = prompt_.substr(bare.size(), common - bare.size());
    header_ = header_.substr(0, header_.find("<think>"));
    end_ = text::text_after_answer(chat_);
    end_.erase(end_.find_last_not_of(" \t\r\n") + 1);
  }

  const std::string& header() const { return header_; }
  const std::string& end() const { return end_; }

  bool is_read_by(const ResponseTemplate& spec) const {
    // Some templates refuse a second call in a turn, or leave it out.
    return calls_of(spec, one_) == 1 && (two_.empty() || calls_of(spec, two_) > 0) && reads_plain(spec);
  }

 private:
  static constexpr const char* kAnswer = "A plain answer.";

  // "" where the template refuses the conversation, which it may for two calls in one turn.
  std::string render(const Json& answers, bool prompt) const {
    Json messages = Json::array({{{"role", "user"}, {"content", "Which one?"}}});
    for (const Json& answer : answers) messages.push_back(answer);
    try {
      return chat_
          .render(
              {.messages = messages, .tools = tools_, .template_kwargs = {}, .add_generation_prompt = prompt})
          .text;
    } catch (const base::UserError&) {
      return "";
    }
  }

  // The message that `spec` makes of the answer at the end of `whole`; null when it does not parse.
  Json read(const ResponseTemplate& spec, const std::string& whole) const {
    std::size_t at = prompt_.size();
    if (!whole.starts_with(prompt_)) {
      if (header_.empty() || whole.rfind(header_) == whole.npos) return nullptr;
      at = whole.rfind(header_) + header_.size();
    }
    try {
      return spec.parse(whole.substr(0, at), whole.substr(at), Casts(tools_));
    } catch (const NotParsed&) {
      return nullptr;
    } catch (const base::PatternTooSlow&) {
      return nullptr;
    }
  }

  std::size_t calls_of(const ResponseTemplate& spec, const std::string& whole) const {
    const Json message = whole.empty() ? Json() : read(spec, whole);
    if (!message.is_object() || !message.contains("tool_calls") || message.contains("content")) return 0;
    for (const Json& each : message["tool_calls"]) {
      const Json expected = call_["tool_calls"][0]["function"];
      const Json& function = each.is_object() && each.contains("function") ? each["function"] : each;
      if (function.value("name", Json()) != expected["name"]) return 0;
      if (function.value("arguments", Json()) != expected["arguments"]) return 0;
    }
    return message["tool_calls"].size();
  }

  bool reads_plain(const ResponseTemplate& spec) const {
    const Json message = plain_.empty() ? Json() : read(spec, plain_);
    return message.is_object() && message.value("content", Json()) == kAnswer &&
           !message.contains("tool_calls");
  }

  const text::ChatTemplate& chat_;
  Json tools_, call_;
  std::string one_, two_, plain_, prompt_, header_, end_;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// The family's response template with the header and the end of a turn that the chat template writes.
Json with_frame(const Family& family, const Probe& probe) {
  Json out = family.response_template;
  if (probe.header().empty() || probe.end().empty()) return out;
  out.erase("start_anchor_pattern");
  out["start_anchor"] = probe.header();
  for (auto& [name, field] : out["fields"].items()) {
    if (field.contains("open") || field.contains("open_pattern")) continue;
    field.erase("close");
    field["close_pattern"] = escaped(probe.end()) + "\\s*";
  }
  return out;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      read(kQwen3Family),      read(kQwen35Family),  read(kGlm4Family),       read(kLlama3Family),
      read(kGptOssFamily),     read(kLfm2Family),    read(kGemma4Family),     read(kNemotron3Family),
      read(kDeepseekR1Family), read(kMistralFamily), read(kMistralArgsFamily)};
  return all;
}

const Family* family_of(std::string_view chat_template) {
  const std::string key = key_of(chat_template);
  for (const Family& family : families())
    for (const std::string& each : family.chat_templates)
      if (each == key) return &family;
  return nullptr;
}

std::optional<Recognized> recognize(const text::ChatTemplate& chat, bool beyond_trl) {
  const Probe probe(chat);
  for (const Family& family : families()) {
    if (family.beyond_trl && !beyond_trl) continue;
    if (probe.is_read_by(ResponseTemplate(family.response_template, family.name)))
      return Recognized{&family, family.response_template, false};
  }
  for (const Family& family : families()) {
    if (family.beyond_trl && !beyond_trl) continue;
    Json changed = with_frame(family, probe);
    if (probe.is_read_by(ResponseTemplate(changed, family.name)))
      return Recognized{&family, std::move(changed), true};
  }
  return std::nullopt;
}

Json call_message(const std::string& name, const Json& arguments, const std::string& content) {
  Json function = Json::object();
  function["name"] = name;
  function["arguments"] = arguments;
  Json call = Json::object();
  call["type"] = "function";
  call["function"] = std::move(function);
  Json out = Json::object();
  out["role"] = "assistant";
  out["content"] = content;
  out["tool_calls"] = Json::array({std::move(call)});
  return out;
}

}  // namespace hone::tools
